"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid parallel.tp=4,8,
