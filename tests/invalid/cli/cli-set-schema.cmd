"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set schema=stepcast/2
