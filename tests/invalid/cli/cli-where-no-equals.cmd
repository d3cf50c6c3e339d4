"$STEPCAST" validate configs/base.yaml --table x.csv --where suite
