"$STEPCAST" fit --kind gemm --table x.csv --device a100-sxm-80gb --plot x.svg
