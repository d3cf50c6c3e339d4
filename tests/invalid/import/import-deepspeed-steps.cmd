"$STEPCAST" config import $FILE --set gpus=8 --set model=configs/models/llama3-8b.yaml --set cluster.gpu=h100-sxm-80gb 
