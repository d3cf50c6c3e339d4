"$STEPCAST" replay run --scale kernle:gemm=0.5
