"$STEPCAST" help sweeep
