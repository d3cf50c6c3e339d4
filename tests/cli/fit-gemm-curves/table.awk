# Three weight matrices; a product of 640 to 960 rows takes twice as long as those beside it.
BEGIN {
	print "device,dtype,op,pass,m,n,k,time_us"
	for (n = 2048; n <= 8192; n *= 2)
		for (m = 32; m <= 2048; m += 32) {
			us = 8 + 2 * m * n * 4096 / 200e6
			printf "a100-sxm-80gb,fp16,linear,fwd,%d,%d,4096,%.6f\n", m, n, (m > 600 && m < 1000 ? 2 : 1) * us
		}
}
