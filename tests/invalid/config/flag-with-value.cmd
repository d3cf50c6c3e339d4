"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --json=yes
