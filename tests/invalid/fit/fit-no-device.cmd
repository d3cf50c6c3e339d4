"$STEPCAST" fit --kind gemm --table x.csv
