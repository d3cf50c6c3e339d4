"$STEPCAST" validate --kind collective --table "$FILE"
