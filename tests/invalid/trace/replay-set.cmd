"$STEPCAST" replay run --set parallel.dp=4
