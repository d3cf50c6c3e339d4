"$STEPCAST" validate configs/base.yaml --table "$FILE" --where case=none --max-mape 5 -q
