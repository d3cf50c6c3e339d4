torchrun pretrain_t5.py --num-layers 4
