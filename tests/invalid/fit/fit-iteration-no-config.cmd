"$STEPCAST" fit --kind iteration --table t.csv --coef software.host_op_us
