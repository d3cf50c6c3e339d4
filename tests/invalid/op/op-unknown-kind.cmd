"$STEPCAST" op gem --device a100-sxm-80gb m=1
