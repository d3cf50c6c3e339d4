"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --report nowhere/r.html
