printf "device,op,rows,cols,us\n" >fit-table.csv
"$STEPCAST" fit --kind rowwise --table fit-table.csv --device a100-sxm-80gb
