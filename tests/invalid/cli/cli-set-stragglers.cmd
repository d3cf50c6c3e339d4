"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set stragglers=0
