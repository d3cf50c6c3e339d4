/* How a training framework behaves, from configs/software/ID.yaml: what it overlaps, fuses, launches. */
#ifndef SC_CORE_SOFTWARE_H
#define SC_CORE_SOFTWARE_H

#include "base/fields.h"
#include "base/yaml.h"
#include "core/embedding/embedding.h"
#include "core/machine/c3_policy.h"

enum sc_grad_sync {
	SC_GRAD_AFTER,
	SC_GRAD_OVERLAP
}; /* data-parallel reduction: after the last backward, or during it */

/* What selective recomputation runs again: the attention core (Korthikanti et al. 2022), or all but
 * attention and every second matrix product (torchtitan's per-op policy). */
/* Sharded weights or gradients (ZeRO-2, ZeRO-3, FSDP) with pipeline stages: weights are gathered once an
 * iteration and stay, gradients are summed up whole and reduced once; or both move for every micro-batch;
 * or the software refuses it. */
enum sc_sharded_pipeline { SC_SHARDED_ONCE, SC_SHARDED_EACH, SC_SHARDED_REFUSED };

enum sc_selective { SC_SELECTIVE_ATTENTION, SC_SELECTIVE_OPS };

/* Recommendation models. */
struct sc_dlrm_habits {
	/* Slices of rows send their partial sums, added up within a node, then on their owners (HugeCTR);
	 * else they are reduce-scattered. */
	bool partial_sums;
	bool index_exchange; /* ranks read their own samples, and exchange indices by table, a batch ahead */
	bool embedding_stream; /* embeddings run on a stream of their own, beside the bottom MLP */
	bool fused_mlp;        /* bias, activation and their gradients ride on the GEMMs */
	double embedding_eff;  /* speed of its embedding kernels over the device's; default 1 */
	double host_sample_us; /* CPU time of the input pipeline for a sample of a rank */
	/* GPU time a step for each table of a rank, each looked up by kernels of its own: distinct ids, casts, copies; 0: one
	 * kernel looks up in all. */
	double table_us;
	/* The same on every rank for each vector that is exchanged: cut out, put together */
	double output_us;
};

/* How tensors are scaled to fp8: by maxima of earlier iterations, by their own, by rows' and columns' (torchao's
 * rowwise), or by blocks' (Transformer Engine's DelayedScaling, Float8CurrentScaling, Float8BlockScaling). */
enum sc_fp8_recipe { SC_FP8_DELAYED, SC_FP8_CURRENT, SC_FP8_ROWWISE, SC_FP8_BLOCKWISE };
extern const struct sc_name sc_fp8_recipe_names[];

/* Parts of a layer whose launches are replayed as CUDA graphs of their own; full_iteration: everything. */
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

/* How tokens go to their experts: exchanged as one message a pair of ranks and expert; gathered whole; by
 * kernels that send a token once to a rank, over a node's network once to it (deepseek-ai/DeepEP; NVIDIA's
 * HybridEP, for NVLink domains beyond a node). */
enum sc_dispatcher {
	SC_DISPATCH_ALL_TO_ALL,
	SC_DISPATCH_ALL_GATHER,
	SC_DISPATCH_DEEPEP,
	SC_DISPATCH_HYBRIDEP
};
extern const struct sc_name sc_dispatcher_names[];

/* What of its releases has a profile of its own. */
struct sc_release {
	int64_t capability; /* for GPUs of that CUDA capability and later, 90 = 9.0; 0: by version */
	const char *version; /* training.software_version begins so */
	const char *profile;
	bool unpadded; /* for samples without padding, whose lengths are not told */
	bool unties; /* the first that can untie embeddings: taken for a model that does, if no version is given */
};

/* A file's list of pieces of config that are laid under a request's; those of its defaults are older. */
struct sc_config_piece {
	const struct sc_yaml *list;
	const struct sc_config_piece *older;
};

struct sc_software {
	const char *id;
	const struct sc_config_piece *config;
	struct sc_structs habits; /* struct sc_habit (core/config/config.h), what the pieces say */
	struct sc_structs releases; /* struct sc_release; the first that fits is taken */
	enum sc_grad_sync grad_sync;
	double bucket_mib; /* gradient bucket; 0 = one bucket per parameter dtype */
	double gathers_per_layer; /* collectives in which a sharded layer's weights are gathered (ZeRO-3, FSDP) */
	/* Sharded weights, inputs of tensor-parallel layers and gradients of their outputs are gathered in fp8 where GEMMs
	 * are fp8, of one scale a tensor. */
	bool gather_fp8;
	bool gather_ahead;      /* sharded weights are gathered one layer ahead, else on demand */
	double grad_bytes;      /* bytes per gradient element in the reduction: 2 or 4 */
	double grad_bytes_bf16; /* the same where weights are bf16; 0: as grad_bytes */
	double mla_moment_bytes; /* of an optimizer's moment, of models with latent attention; default 4 */
	/* One kernel each, else chains of elementwise ones: bias, dropout and residual; scale, mask and softmax; rotary
	 * embeddings. */
	bool fused_chains;
	bool fused_loss;     /* the same of the cross entropy */
	bool norms_apart;    /* norms are modules: none joins the product behind it */
	bool fused_fp8_cast; /* casts to fp8 ride on the kernels before them, if scales are known */
	/* LoRA runs: context-parallel ranks exchange heads if these divide, else pass on keys and values. */
	bool lora_recipe;
	/* Flash attention is fp8 where GEMMs are mxfp8, fp8 of LoRA, or nvfp4 (of whole sequences, or LoRA). */
	bool mx_fp8_attention;
	bool mlm_gather; /* masked-language-model head on the masked positions only */
	/* Bytes that its elementwise kernels move over those counted here; for chains that are not fused
	 * where PyTorch's kernels are, default 1; and where products alone are in 16 bits, 0 = the same. */
	double elementwise_factor, elementwise_factor_amp;
	/* Speed of its fused attention kernels over those the device's coefficients are of: on GPUs before
	 * Hopper; and from Hopper on, where kernels written for earlier ones lose much. Default 1. */
	double attention_eff, attention_eff_hopper;
	/* Share of the fabric's rates that its communication reaches, default 1, and what it adds to every
	 * collective's latency (a coordinator's cycle, sockets), default 0. */
	double link_eff, net_eff, comm_latency_us;
	bool recompute_early_stop; /* full recomputation stops before a layer's last matrix product */
	bool interleaves;          /* parallel.virtual_stages not given: chunks of two layers */
	/* Samples of models that are not causal are batched by length, in bins of so many tokens; 0 = not. */
	double length_bin_tokens;
	enum sc_selective selective;
	enum sc_sharded_pipeline sharded_pipeline;
	bool layer_updates; /* of a table of layers: each bucket's weights, before its next forward */
	/* Of unsharded weights the update itself unscales and clips gradients of 16 bits; else they are copied to
	 * fp32, checked and scaled first. */
	bool fused_unscale;
	bool allow_tf32; /* an optimizer's products of fp32 matrices are TF32 where the GPU has it */
	bool blocking_checkpoints; /* copies of activations to the host and back are on the kernels' stream */
	bool distributed_optimizer;   /* reduce-scatter + all-gather in place of all-reduce */
	bool fused_grad_accumulation; /* weight-gradient GEMM adds into the main gradient */
	bool tp_dgrad_overlap; /* all-reduces of backward hide behind the weight gradient; sequence-parallel ones always do */
	/* Quantized products' rows are padded to what their scales ask for, by copies; else the router sees to it. */
	bool pads_experts;
	double host_expert_us; /* CPU time for one product of a grouped GEMM beside its launch */
	double host_sync_us; /* until the host has read what a layer's experts get; 0 = it need not */
	/* Of a product in pieces before a reduction kernels on so many SMs reduce them; 0 = copy engines push one to each
	 * rank. */
	double tp_scatter_sms;
	bool scatter_gather_p2p; /* pipeline transfers split over tp ranks, gathered at arrival */
	bool pad_vocab;          /* pads the vocabulary to 128 * tp even where tp divides it */
	double host_op_us;       /* CPU time per launched kernel, framework and Python included */
	double host_layer_us;    /* CPU time per layer and pass beside its launches */
	double host_micro_batch_us; /* per micro-batch and stage: schedule, data loader, loss logging */
	bool host_waits; /* after each layer of a pass: the host does not run ahead of the GPU */
	double host_step_us; /* once per iteration: optimizer bookkeeping, logging */
	double comm_host_us; /* CPU time of one collective; of tensor parallelism, for each other rank of its group, at most seven */
	/* The optimizer on the CPU: what a node's processes together reach of its memory's bandwidth, counted in
	 * the bytes of a fused step, and at most that many 1e9 bytes/s a process (0: no limit; default 19:
	 * torch.optim on one thread). */
	double cpu_step_frac, cpu_step_gbps;
	double reserve_gib; /* CUDA context, communication and workspace buffers, allocator slack, per GPU */
	/* fp32 copies of the logits that the loss has at once; default 1 if fused, else 2 */
	double loss_copies;
	double reserve_frac; /* what the allocator holds beyond tensors, of their bytes; default 0 */
	struct sc_dlrm_habits dlrm;
};
extern const struct sc_field sc_software_fields[];
int sc_software_load(const char *id, struct sc_arena *arena, struct sc_software *out,
		     struct sc_err *err);

#endif
