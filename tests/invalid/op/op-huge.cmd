"$STEPCAST" op gemm --device t4 m=1e300 n=8 k=8
