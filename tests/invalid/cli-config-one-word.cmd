"$STEPCAST" config check
