"$STEPCAST" sweep configs/examples/dlrm-dcnv2-h100.yaml --grid "model.tables[0].rows=3,4"
