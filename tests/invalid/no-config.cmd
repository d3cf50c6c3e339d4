"$STEPCAST" predict
