v=$(seq -s, 1 4000)
"$STEPCAST" sweep configs/examples/gpt-22b-selene.yaml --grid parallel.tp=$v --grid parallel.pp=$v --grid parallel.dp=$v
