"$STEPCAST" predict nowhere.yaml
