"$STEPCAST" op embedding --device v100-sxm-32gb rows=0 dim=8 batch=4
