"$STEPCAST" predict configs/examples/dlrm-dcnv2-h100.yaml --set "model.tables[0].rows=3"
