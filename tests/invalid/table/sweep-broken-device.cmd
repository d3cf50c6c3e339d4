STEPCAST_CONFIGS=own "$STEPCAST" sweep base.yaml --grid cluster.gpu=my-gpu -o out.csv
