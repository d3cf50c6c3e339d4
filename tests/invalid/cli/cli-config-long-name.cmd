"$STEPCAST" predict $(yes a | head -n 5000 | tr -d '\n').yaml
