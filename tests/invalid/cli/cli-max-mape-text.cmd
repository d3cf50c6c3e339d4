"$STEPCAST" validate configs/base.yaml --table x.csv --max-mape ten
