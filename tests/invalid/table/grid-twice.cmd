"$STEPCAST" sweep configs/base.yaml --grid parallel.tp=1,2 --grid parallel.tp=4
