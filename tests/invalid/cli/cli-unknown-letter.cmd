"$STEPCAST" predict -z configs/examples/gpt-22b-selene.yaml
