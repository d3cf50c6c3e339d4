"$STEPCAST" validate configs/base.yaml --kind collective --table x.csv
