"$STEPCAST" op embedding --device v100-sxm-32gb dim=8 batch=4
