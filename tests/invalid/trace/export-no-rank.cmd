"$STEPCAST" export "$FILE" --rank 7
