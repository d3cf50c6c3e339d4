"$STEPCAST" op gemm --device t4 m=64 n=64 k=64 dtype=fp8
