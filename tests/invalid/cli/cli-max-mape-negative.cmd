"$STEPCAST" validate configs/base.yaml --table x.csv --max-mape -1
