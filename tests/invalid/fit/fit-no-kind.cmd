"$STEPCAST" fit --table x.csv --device a100-sxm-80gb
