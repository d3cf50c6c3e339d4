"$STEPCAST" predict configs/base.yaml/x.yaml
