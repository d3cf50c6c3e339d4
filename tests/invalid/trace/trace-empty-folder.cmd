"$STEPCAST" info trace-empty-folder
