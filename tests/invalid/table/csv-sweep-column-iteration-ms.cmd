"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --table "$FILE"
