"$STEPCAST" op gemm --device t4 m
