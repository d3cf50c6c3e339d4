"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid training.micro_batch=1,2,4 >/dev/full
