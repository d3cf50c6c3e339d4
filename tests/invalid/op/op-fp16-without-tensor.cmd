STEPCAST_CONFIGS=own "$STEPCAST" op gemm --device my-gpu m=64 n=64 k=64 dtype=fp16
