"$STEPCAST" config import $FILE
