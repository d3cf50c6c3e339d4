"$STEPCAST" info "$FILE"
