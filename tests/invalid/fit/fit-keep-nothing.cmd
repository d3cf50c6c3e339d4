{ echo machine,device,collective,bytes,ranks,nodes,gpus_per_node,intra,inter,time_us; for i in $(seq 120); do echo "m$((i % 3)),a100-sxm-80gb,all_reduce,$((i * 40960)),8,1,8,NVSwitch,none,$((i + 30))"; done; } >fit-table.csv
"$STEPCAST" fit --kind collective --table fit-table.csv --device a100-sxm-80gb --leave-out machine --keep 'ramp.*' --keep bogus
