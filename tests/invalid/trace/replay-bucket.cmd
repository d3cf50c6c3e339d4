"$STEPCAST" replay run --bucket-mib 0
