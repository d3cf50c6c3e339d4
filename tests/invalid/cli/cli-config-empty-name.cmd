"$STEPCAST" predict ''
