"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid notes=a,b
