"$STEPCAST" validate configs/base.yaml --table x.csv --jobs 0
