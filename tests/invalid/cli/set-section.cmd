"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set parallel=4
