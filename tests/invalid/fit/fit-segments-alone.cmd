echo device,op,rows,cols,time_us >fit-table.csv
"$STEPCAST" fit --kind collective --table fit-table.csv --device a100-sxm-80gb --segments
