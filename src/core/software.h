/* How a training framework behaves, from configs/software/ID.yaml: what it overlaps, fuses, launches. */
#ifndef SC_CORE_SOFTWARE_H
#define SC_CORE_SOFTWARE_H

#include "base/fields.h"

enum sc_grad_sync {
	SC_GRAD_AFTER,
	SC_GRAD_OVERLAP
}; /* data-parallel reduction: after the last backward, or during it */
enum sc_p2p_sync { SC_P2P_SYNC, SC_P2P_ASYNC }; /* does the host wait for pipeline transfers */

struct sc_software {
	const char *id;
	const char *order; /* rank order, innermost first: "tp-cp-ep-dp-pp" */
	enum sc_grad_sync grad_sync;
	double bucket_mib; /* gradient bucket; 0 = one bucket per parameter dtype */
	double gathers_per_layer; /* collectives in which a sharded layer's weights are gathered (ZeRO-3, FSDP) */
	bool gather_ahead;      /* sharded weights are gathered one layer ahead, else on demand */
	double grad_bytes;      /* bytes per gradient element in the reduction: 2 or 4 */
	double grad_bytes_bf16; /* the same where weights are bf16 */
	double main_grad_bytes; /* per parameter: copy of the gradients that the optimizer works on */
	bool grad_accumulate_fp32; /* main gradients in fp32, added after each micro-batch */
	bool flash_attention;      /* training.attention that is not given means flash */
	bool fused_bias_gelu, fused_bias_dropout, fused_softmax;
	bool fused_optimizer;         /* one multi-tensor kernel for the update, else per tensor */
	bool distributed_optimizer;   /* reduce-scatter + all-gather in place of all-reduce */
	bool fused_grad_accumulation; /* weight-gradient GEMM adds into the main gradient */
	bool tp_dgrad_overlap; /* all-reduces of backward hide behind the weight gradient; sequence-parallel ones always do */
	bool scatter_gather_p2p; /* pipeline transfers split over tp ranks, gathered at arrival */
	enum sc_p2p_sync p2p_sync;
	bool pad_vocab;       /* pads the vocabulary to 128 * tp even where tp divides it */
	double dropout;       /* 1 = dropout kernels run, 0 = none */
	double host_op_us;    /* CPU time per launched kernel, framework and Python included */
	double host_layer_us; /* CPU time per layer and pass beside its launches */
	double host_recompute_us; /* CPU time per recomputed layer: saved random states, re-entered autograd */
	double host_micro_batch_us; /* per micro-batch and stage: schedule, data loader, loss logging */
	double host_step_us;        /* once per iteration: optimizer bookkeeping, logging */
	double comm_host_us;        /* CPU time to issue one collective */
	double buffers_gib;         /* communication and workspace buffers per GPU */
	double reserve_gib;         /* CUDA context, allocator slack */
	double spread_frac;         /* residual spread of the host model (one sigma, relative) */
	double residual_frac; /* spread of whole iterations around the model that no op explains */
	double loss_all_reduce; /* number of small world-wide syncs per iteration (loss, grad norm, overflow) */
};
extern const struct sc_field sc_software_fields[];
int sc_software_load(const char *id, struct sc_arena *arena, struct sc_software *out,
		     struct sc_err *err);

#endif
