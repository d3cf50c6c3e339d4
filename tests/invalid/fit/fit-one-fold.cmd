"$STEPCAST" fit --kind gemm --folds 1
