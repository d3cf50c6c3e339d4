"$STEPCAST" config import
