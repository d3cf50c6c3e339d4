"$STEPCAST" validate configs/base.yaml --table "$FILE" --where cas=a
