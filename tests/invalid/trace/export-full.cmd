"$STEPCAST" export "$FILE" -o /dev/full
