"$STEPCAST" predict --no-json configs/examples/gpt-22b-selene.yaml
