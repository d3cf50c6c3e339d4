"$STEPCAST" predict dlrm-plan-gpus.yaml
