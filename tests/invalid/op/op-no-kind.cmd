"$STEPCAST" op --device t4
