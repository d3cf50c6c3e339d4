"$STEPCAST" sweep configs/base.yaml --grid parallel.tpp=1,2
