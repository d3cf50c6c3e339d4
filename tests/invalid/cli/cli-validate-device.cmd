"$STEPCAST" validate configs/base.yaml --device a30 --table x.csv
