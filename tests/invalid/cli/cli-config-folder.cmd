"$STEPCAST" predict configs
