$STEPCAST search configs/examples/gpt-22b-selene.yaml --choose model.seq
