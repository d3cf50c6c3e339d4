torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 512 --micro-batch-size 1 --bf16 --multi-latent-attention
