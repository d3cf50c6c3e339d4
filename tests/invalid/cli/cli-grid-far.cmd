"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid colour=red
