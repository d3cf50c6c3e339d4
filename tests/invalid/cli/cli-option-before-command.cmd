"$STEPCAST" --json predict configs/examples/gpt-22b-selene.yaml
