$STEPCAST search configs/examples/gpt-22b-selene.yaml --all --gpus 64-512
