"$STEPCAST" collective all_reduce --device a100-sxm-80gb --bytes 8:4
