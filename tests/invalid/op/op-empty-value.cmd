"$STEPCAST" op gemm --device t4 m= n=8 k=8
