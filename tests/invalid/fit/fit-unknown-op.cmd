{ echo device,op,rows,cols,time_us; for i in $(seq 30); do echo "a100-sxm-80gb,add,$((i * 1024)),4096,$((i * 16 + 9))"; done; } >fit-table.csv
echo a100-sxm-80gb,tanh,64,64,9 >>fit-table.csv
"$STEPCAST" fit --kind rowwise --table fit-table.csv --device a100-sxm-80gb
