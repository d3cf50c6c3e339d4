"$STEPCAST" op gemm --device t5 m=8 n=8 k=8
