"$STEPCAST" replay run --missing none
