"$STEPCAST" collective all_reduce --device a100-sxm-80gb --bytes 1M --algorithm "$FILE"
