"$STEPCAST" config check nowhere.yaml
