"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid schema=stepcast/1
