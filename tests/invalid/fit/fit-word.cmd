"$STEPCAST" fit gemm
