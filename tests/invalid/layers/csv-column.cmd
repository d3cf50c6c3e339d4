"$STEPCAST" predict configs/examples/ace-resnet50-64.yaml --set model.rows_csv="$FILE"
