"$STEPCAST" op gemm --device t4 m=inf n=8 k=8
