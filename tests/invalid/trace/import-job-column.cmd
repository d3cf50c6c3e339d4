"$STEPCAST" import "$FILE" -o run
