$STEPCAST search configs/examples/gpt-22b-selene.yaml --choose parallel.tpp=1,2
