$STEPCAST search configs/examples/gpt-1t-selene.yaml --all --fix gpus=8 --fix training.global_batch=8
