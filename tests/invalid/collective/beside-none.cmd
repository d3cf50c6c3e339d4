"$STEPCAST" collective all_reduce --device h100-sxm-80gb --bytes 1M --beside all_gather:0
