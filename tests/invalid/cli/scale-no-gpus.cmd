$STEPCAST scale configs/examples/gpt-22b-selene.yaml
