"$STEPCAST" replay run --scale kernel=-1
