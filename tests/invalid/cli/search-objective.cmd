$STEPCAST search configs/examples/gpt-22b-selene.yaml --all --objective speed
