printf 'gpu: a100-sxm-80gb\ntopology: %s\n' "$FILE" >c.yaml
"$STEPCAST" collective all_reduce --cluster c.yaml --bytes 1M
