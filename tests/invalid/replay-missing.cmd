"$STEPCAST" replay nowhere
