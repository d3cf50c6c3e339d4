"$STEPCAST" sweep configs/base.yaml
