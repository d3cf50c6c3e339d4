"$STEPCAST" predict configs/examples/gpt-22b-selene.yaml --set cluster.gpu=a100-sxm-80g
