"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set cluster.nodes=h100-sxm-80gb
