"$STEPCAST" op attention --device t4 batch=1 heads=8 seq=128 head_dim=64 dtype=bf16
