"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --json >/dev/full
