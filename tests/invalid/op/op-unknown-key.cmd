"$STEPCAST" op attention --device a100-sxm-80gb batch=1 head=2
