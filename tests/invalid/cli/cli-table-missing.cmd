"$STEPCAST" validate configs/base.yaml --table nowhere.csv
