"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid measured_ms=100,200
