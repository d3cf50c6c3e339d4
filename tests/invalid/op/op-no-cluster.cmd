"$STEPCAST" op collective bytes=8 ranks=2
