{ echo device,op,rows,cols,time_us; for i in $(seq 30); do echo "a100-sxm-80gb,add,$((i * 1024)),4096,$((i * 16 + 9))"; done; } >fit-table.csv
"$STEPCAST" fit --kind rowwise --table fit-table.csv --device t4
