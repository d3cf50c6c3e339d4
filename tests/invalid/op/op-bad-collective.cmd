"$STEPCAST" op collective --device a100-sxm-80gb kind=all_reduces bytes=8 ranks=2
