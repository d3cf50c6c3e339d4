"$STEPCAST" validate configs/base.yaml --table "$FILE" --by suite
