"$STEPCAST" op gemm --device t4 m=8 n=8 k=8 dtype=fp61
