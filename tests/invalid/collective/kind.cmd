"$STEPCAST" collective all_sum --device a100-sxm-80gb
