$STEPCAST search configs/examples/gpt-22b-selene.yaml --choose parallel.tp=1,2 --choose parallel.tp=4
