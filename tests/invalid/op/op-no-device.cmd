"$STEPCAST" op gemm m=1 n=1 k=1
