"$STEPCAST" export nowhere
