# numbers are the models'
$STEPCAST search configs/examples/gpt-1t-selene.yaml --all --fix gpus=8 --fix training.global_batch=8 2>err || code=$?
sed -E 's/[0-9]+ candidates/N candidates/; s/needs [0-9.]+/needs N/' err >&2
exit $code
