"$STEPCAST" validate configs/base.yaml configs/examples/gpt-22b-selene.yaml --table x.csv
