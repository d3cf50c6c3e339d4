"$STEPCAST" op embedding --device v100-sxm-32gb rows=5 dim=8 batch=4 reuse=none.npy
