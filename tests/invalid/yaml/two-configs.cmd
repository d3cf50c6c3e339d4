"$STEPCAST" predict a.yaml b.yaml
