"$STEPCAST" fit --kind gemm --device a100-sxm-80gb
