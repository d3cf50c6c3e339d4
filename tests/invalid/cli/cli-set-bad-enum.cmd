"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set training.precision=fp61
