"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid 'parallel.stage_layers=[1,2'
