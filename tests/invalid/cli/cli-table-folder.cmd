"$STEPCAST" validate configs/base.yaml --table configs
