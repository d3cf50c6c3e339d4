"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid parallel.tp=8 -j1.5
