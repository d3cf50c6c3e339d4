"$STEPCAST" config import configs/nothing.sh
