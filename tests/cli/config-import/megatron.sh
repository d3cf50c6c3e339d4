#!/bin/bash
# A mixture of experts on 16 nodes, as a Megatron-LM script is written.
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NNODES=${NNODES:-16}
NODE_RANK=${SLURM_NODEID:-0}
WORLD_SIZE=$(($GPUS_PER_NODE * $NNODES))
TP=2
PP=4
HIDDEN=4096
SEQ=4096
MICRO=1
GLOBAL=$((WORLD_SIZE * 2))

if [ -n "$RESUME" ]; then
	CHECKPOINT=$RESUME
fi

DISTRIBUTED_ARGS=(
	--nproc_per_node $GPUS_PER_NODE
	--nnodes $NNODES
	--node_rank $NODE_RANK
	--master_addr ${MASTER_ADDR:-localhost}
)

MODEL_ARGS=(
	--use-mcore-models
	--num-layers 32
	--hidden-size ${HIDDEN}
	--ffn-hidden-size 14336
	--num-attention-heads 32
	--group-query-attention
	--num-query-groups 8
	--seq-length ${SEQ}
	--max-position-embeddings 32768
	--position-embedding-type rope
	--rotary-base 1000000
	--normalization RMSNorm
	--swiglu
	--disable-bias-linear
	--untie-embeddings-and-output-weights
	--no-masked-softmax-fusion
)

MOE_ARGS="--num-experts 8 --moe-router-topk 2 \
	--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 \
	--moe-grouped-gemm --moe-token-dispatcher-type alltoall"

TRAINING_ARGS=(
	--micro-batch-size $MICRO
	--global-batch-size "$GLOBAL"
	--lr 1e-4 --min-lr 1.0e-5 --lr-decay-style cosine
	--train-iters 500000
	--weight-decay 0.1 --clip-grad 1.0
	--bf16
)
TRAINING_ARGS+=(--recompute-granularity full --recompute-method block --recompute-num-layers 2)

PARALLEL_ARGS=(
	--tensor-model-parallel-size $TP
	--pipeline-model-parallel-size $PP
	--num-layers-per-virtual-pipeline-stage 4
	--expert-model-parallel-size 8
	--sequence-parallel
	--use-distributed-optimizer
	--overlap-grad-reduce --overlap-param-gather
)

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
	"${MODEL_ARGS[@]}" \
	${MOE_ARGS} \
	"${TRAINING_ARGS[@]}" "${PARALLEL_ARGS[@]}" \
	--tokenizer-type Llama2Tokenizer \
	--tokenizer-model "$TOKENIZER" --data-path $DATA --split 99,1,0 \
	--log-interval 1 --save "$CHECKPOINT" --save-interval 1000 2>&1 | tee train.log
