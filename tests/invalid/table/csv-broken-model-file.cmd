"$STEPCAST" validate base.yaml --table "$FILE"
