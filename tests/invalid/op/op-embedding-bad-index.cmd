printf '1 2\n3 x\n' >bad.txt
"$STEPCAST" op embedding --device v100-sxm-32gb rows=5 dim=8 batch=4 reuse=bad.txt
