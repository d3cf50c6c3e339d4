$STEPCAST schedule "$FILE"
