"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set model=models/gpt-23b.yaml
