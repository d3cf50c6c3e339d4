echo "open
torchrun --nproc_per_node 8 pretrain_gpt.py --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --micro-batch-size 1 --bf16 --num-layers 4
