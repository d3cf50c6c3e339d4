"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid model.tables=1,2
