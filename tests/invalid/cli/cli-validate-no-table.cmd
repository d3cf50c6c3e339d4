"$STEPCAST" validate configs/base.yaml
