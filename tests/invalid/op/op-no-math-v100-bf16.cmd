"$STEPCAST" op gemm --device v100-sxm-32gb m=64 n=64 k=64 dtype=bf16
