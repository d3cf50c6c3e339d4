"$STEPCAST" export nowhere --format pdf
