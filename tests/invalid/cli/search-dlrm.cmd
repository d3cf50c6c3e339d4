$STEPCAST search configs/examples/dlrm-dcnv2-h100.yaml --all
