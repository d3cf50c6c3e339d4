$STEPCAST shard configs/base.yaml --set model=models/dlrm-dcnv2.yaml --set cluster.gpu=h100-sxm-80gb --set gpus=8 --set training.global_batch=4096 --objective torchrec -q --plan "$FILE"
