"$STEPCAST" predict configs/examples/dlrm-dcnv2-h100.yaml --set model.tables.rows=3
