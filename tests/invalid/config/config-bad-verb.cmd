"$STEPCAST" config chek configs/base.yaml
