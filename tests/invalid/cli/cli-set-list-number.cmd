"$STEPCAST" predict configs/examples/dlrm-dcnv2-h100.yaml --set "model.bottom_mlp[1]=64"
