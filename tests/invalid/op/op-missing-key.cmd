"$STEPCAST" op gemm --device a100-sxm-80gb m=1 n=1
