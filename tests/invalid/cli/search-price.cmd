$STEPCAST search configs/examples/gpt-22b-selene.yaml --all --price a100-sxm-80gb=free
