"$STEPCAST" fit --kind iteration configs/base.yaml --coef software.host_op_us
