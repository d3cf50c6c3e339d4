"$STEPCAST" validate configs/base.yaml --table "$FILE" --out-cases nowhere/c.csv
