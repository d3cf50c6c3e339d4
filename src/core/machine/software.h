/* How a framework behaves, from configs/software/ID.yaml: what it overlaps, fuses, launches. */
#pragma once

#include "base/fields.h"
#include "base/yaml.h"
#include "core/embedding/embedding.h"
#include "core/machine/c3_policy.h"

enum sc_grad_sync {
	SC_GRAD_AFTER,
	SC_GRAD_OVERLAP,
	SC_GRAD_OVERLAP_UNSHARDED,
	SC_GRAD_BY_LAYER,
}; /* data-parallel reduction: after the last backward, or during it; the last two are one of these
      once a request is resolved */

/* Sharded weights or gradients (ZeRO-2, ZeRO-3, FSDP) with pipeline stages: weights are gathered
 * once an iteration and stay, gradients are summed up whole and reduced once; or both move for
 * every micro-batch; or the software refuses it. */
enum sc_sharded_pipeline { SC_SHARDED_ONCE, SC_SHARDED_EACH, SC_SHARDED_REFUSED };
/* The part that selective recomputation runs again: the attention core (Korthikanti et al. 2022),
 * or all but attention and every second matrix product (torchtitan's per-op policy). */
enum sc_selective { SC_SELECTIVE_ATTENTION, SC_SELECTIVE_OPS };

/* Recommendation models. */
struct sc_dlrm_habits {
	/* Slices of rows send their partial sums, added up within a node, then on their owners
	 * (HugeCTR); else they are reduce-scattered. */
	bool partial_sums;
	bool index_exchange;   /* ranks read their samples, and exchange indices by table, ahead */
	bool embedding_stream; /* embeddings run on a stream of their own, beside the bottom MLP */
	bool one_rank_bottom;  /* rank 0 runs the bottom MLP for all: outputs go as a table's */
	bool fused_mlp;        /* bias, activation and their gradients ride on the GEMMs */
	enum sc_embedding_kernel embedding_kernel;
	double embedding_eff, host_sample_us;
	double table_us;   /* each looked up by kernels of its own: distinct ids, casts, copies */
	double output_us;  /* on every rank: cut out, put together */
	double jagged_eff; /* of attention over sequences, of a fused kernel's rate */
};

/* How tensors are scaled to fp8: by maxima of earlier iterations, by their own, by rows' and
 * columns' (torchao's rowwise), or by blocks' (Transformer Engine's DelayedScaling,
 * Float8CurrentScaling, Float8BlockScaling). */
enum sc_fp8_recipe { SC_FP8_DELAYED, SC_FP8_CURRENT, SC_FP8_ROWWISE, SC_FP8_BLOCKWISE };
extern const struct sc_name sc_fp8_recipe_names[];

/* Parts of a layer replayed as CUDA graphs of their own; full_iteration: everything. */
enum {
	SC_GRAPH_FULL = SC_FLAG,
	SC_GRAPH_ATTN = SC_FLAG << 1,
	SC_GRAPH_MLP = SC_FLAG << 2,
	SC_GRAPH_MOE = SC_FLAG << 3,
	SC_GRAPH_ROUTER = SC_FLAG << 4,
	SC_GRAPH_PREPROCESS = SC_FLAG << 5,
};
extern const struct sc_name sc_graph_names[];
/* Pipeline schedules, SC_FLAG << enum sc_schedule (core/config/config.h), and `all`. */
extern const struct sc_name sc_schedule_set_names[];

/* How tokens go to their experts: exchanged as one message a pair of ranks and expert; gathered
 * whole; by kernels that send a token once to a rank, over a node's network once to it
 * (deepseek-ai/DeepEP; NVIDIA's HybridEP, for NVLink domains beyond a node). */
enum sc_dispatcher {
	SC_DISPATCH_ALL_TO_ALL,
	SC_DISPATCH_ALL_GATHER,
	SC_DISPATCH_DEEPEP,
	SC_DISPATCH_HYBRIDEP
};
extern const struct sc_name sc_dispatcher_names[];

/* A config tells so much of a stack that it does not name. */
enum sc_stack_sign {
	SC_STACK_ANY,
	SC_STACK_TRANSFORMER,
	SC_STACK_SHARDED,  /* weights or gradients over the data-parallel ranks */
	SC_STACK_FP8,      /* or fewer bits */
	SC_STACK_FP16,     /* or tf32 or fp32: code from before bf16 */
	SC_STACK_UNPADDED, /* samples without padding, whose lengths are not told */
	SC_STACK_AMP,      /* autocast */
	SC_STACK_UNTIES,   /* embeddings untied, and no version given: the first release that can */
};
/* A release that has a profile of its own. */
struct sc_release {
	enum sc_stack_sign sign;
	int64_t capability;  /* for GPUs of that CUDA capability and up, 90 = 9.0; 0: by version */
	const char *version; /* training.software_version begins so */
	const char *profile;
};

/* A file's pieces of config that are laid under a request's; those of its defaults are older. */
struct sc_config_piece {
	const struct sc_yaml *list;
	const struct sc_config_piece *older;
};

/* The help in its table (software.c) says what a key means; here is what that does not. */
struct sc_software {
	const char *id;
	const struct sc_config_piece *config;
	struct sc_structs habits; /* struct sc_habit (core/config/config.h), what the pieces say */
	struct sc_structs releases; /* struct sc_release; the first that fits is taken */
	enum sc_grad_sync grad_sync;
	double bucket_mib; /* gradient bucket; 0 = one bucket per parameter dtype */
	double gathers_per_layer;
	bool gather_fp8; /* and gradients of outputs, where GEMMs are fp8, of one scale a tensor */
	bool gather_ahead; /* sharded weights are gathered one layer ahead, else on demand */
	bool fused_chains; /* else chains of elementwise kernels */
	bool fused_loss, norms_apart;
	bool keeps_expert_outputs; /* for their probabilities' gradients */
	bool balanced_in_turn;     /* balanced routing, where it is asked for, is in turn */
	bool weighs_inputs;        /* of experts, by eager kernels */
	bool fused_fp8_cast;       /* if scales are known */
	bool casts_apart;          /* mxfp8: a kernel for each copy, of weights every time */
	bool lora_recipe;          /* if heads divide, else ranks pass on keys and values */
	bool mx_fp8_attention;     /* nvfp4: of whole sequences, or LoRA */
	bool keeps_gate;           /* eager SwiGLU: the product reads the activation's own output */
	bool keeps_gathered; /* else backward gathers a tensor-parallel region's input again */
	bool mlm_gather;
	/* Over those counted here; for chains that are not fused where PyTorch's kernels are. */
	double elementwise_factor;
	double attention_eff,
		attention_eff_hopper; /* kernels written for earlier GPUs lose much on Hopper */
	double link_eff, net_eff, comm_latency_us; /* a coordinator's cycle, sockets */
	bool recompute_early_stop; /* full recomputation stops at a layer's last matrix product */
	bool interleaves;          /* parallel.virtual_stages not given: chunks of two layers */
	/* Samples, if not causal, are batched by length, in bins of so many tokens; 0 = not. */
	double length_bin_tokens;
	enum sc_selective selective;
	enum sc_sharded_pipeline sharded_pipeline;
	bool layer_updates; /* grad_sync by_layer, once a request is resolved */
	bool fused_unscale; /* and clips; else they are copied to fp32, checked and scaled first */
	bool allow_tf32;    /* where the GPU has it */
	bool blocking_checkpoints;    /* copies of activations are on the kernels' stream */
	bool distributed_optimizer;   /* reduce-scatter + all-gather in place of all-reduce */
	bool fused_grad_accumulation; /* weight-gradient GEMM adds into the main gradient */
	bool tp_dgrad_overlap;        /* all-reduces of backward hide behind the weight gradient;
					 sequence-parallel ones always do */
	bool pads_experts;            /* else the router sees to it */
	double host_expert_us;        /* beside its launch */
	double host_sync_us;
	double tp_scatter_sms; /* 0: copy engines push a piece to each rank */
	bool fills_stages; /* balanced stages end at their share, else the longest is the least */
	bool scatter_gather_p2p; /* pipeline transfers split over tp ranks, gathered at arrival */
	bool pad_vocab;          /* pads the vocabulary to 128 * tp even where tp divides it */
	double host_op_us;       /* CPU time per launched kernel, framework and Python included */
	double host_layer_us;    /* CPU time per layer and pass beside its launches */
	double host_micro_batch_us; /* per micro-batch and stage: schedule, data loader, loss */
	bool host_waits; /* after each layer of a pass: the host does not run ahead of the GPU */
	double host_step_us; /* once per iteration: optimizer bookkeeping, logging */
	double comm_host_us;
	/* A node's processes, in bytes of a fused step; a process: torch.optim, one thread. */
	double cpu_step_frac, cpu_step_gbps;
	double reserve_gib, loss_chunks, loss_copies, reserve_frac;
	double activation_factor; /* a stack that keeps what is not counted here */
	double level;             /* what no other number explains: calibrate sets it */
	double band_ln;           /* ln of the factor either way */
	struct sc_dlrm_habits dlrm;
};
extern const struct sc_field sc_software_fields[];
int sc_software_load(const char *id, struct sc_arena *arena, struct sc_software *out,
		     struct sc_err *err);
