"$STEPCAST" op collective --cluster clusters/selen.yaml bytes=8 ranks=2
