"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set model.layers=null
