{ echo device,collective,bytes,ranks,nodes,gpus_per_node,time_us; echo a100-sxm-80gb,all_reduce,1024,16,1,8,9; } >fit-table.csv
"$STEPCAST" fit --kind collective --table fit-table.csv --device a100-sxm-80gb
