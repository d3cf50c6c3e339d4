{ echo collective,bytes,ranks,time_us; for i in $(seq 30); do echo "all_reduce,$((i * 4096)),8,$((i + 30))"; done; } >fit-table.csv
"$STEPCAST" fit --kind collective --table fit-table.csv --device a100-sxm-80gb --keep 'ramp.*'
