"$STEPCAST" fit --kind gem --table x.csv --device a100-sxm-80gb
