# Residual additions at 0.8 of 2,039 GB/s and 9 us a kernel, each tenth three times as long.
BEGIN {
	print "source,device,dtype,op,rows,cols,time_us"
	for (i = 0; i < 90; i++) {
		rows = 64 * 2 ^ (i % 12)
		cols = 2048 + 512 * (i % 5)
		us = 9 + rows * cols * 6 / (0.8 * 2039e3)
		printf "bench,a100-sxm-80gb,fp16,add,%d,%d,%.6f\n", rows, cols, i % 10 == 3 ? 3 * us : us
	}
	print "bench,a100-sxm-80gb,fp16,add,64,64,"
	print "bench,t4,fp16,add,64,64,77"
}
