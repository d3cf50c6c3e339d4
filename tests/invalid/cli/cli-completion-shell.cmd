"$STEPCAST" --completion tcsh
