"$STEPCAST" validate configs/base.yaml --table "$FILE" --by case --by case
