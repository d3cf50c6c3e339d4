/* Names of who places embedding tables, of whose kernels they are, and of what steps their rows. */
#include "core/embedding/embedding.h"

const struct sc_name sc_embedding_kernel_names[] = {
	{"tbe", SC_KERNEL_TBE},
	{"tbe_hipified", SC_KERNEL_TBE_HIP},
	{"hugectr", SC_KERNEL_HUGECTR},
	{"pytorch", SC_KERNEL_PYTORCH},
	{0},
};

const struct sc_name sc_storage_names[] = {
	{"fp32", SC_FP32 + 1},
	{"fp16", SC_FP16 + 1},
	{"bf16", SC_BF16 + 1},
	{"fp8", SC_FP8 + 1},
	{0},
};
const struct sc_name sc_planner_names[] = {
	{"stepcast", SC_PLANNER_STEPCAST}, {"torchrec", SC_PLANNER_TORCHREC},
	{"hugectr", SC_PLANNER_HUGECTR},   {"memory_balanced", SC_PLANNER_MEMORY_BALANCED},
	{"lookups", SC_PLANNER_LOOKUPS},   {0},
};
const struct sc_name sc_optimizer_names[] = {
	{"adam", SC_OPT_ADAM},
	{"sgd", SC_OPT_SGD},
	{"adagrad", SC_OPT_ADAGRAD},
	{"none", SC_OPT_NONE},
	{"rowwise_adagrad", SC_OPT_ROWWISE_ADAGRAD},
	{"atomic_sgd", SC_OPT_ATOMIC_SGD},
	{"adam8bit", SC_OPT_ADAM_8BIT},
	{"lion", SC_OPT_LION},
	{"lamb", SC_OPT_LAMB},
	{"adafactor", SC_OPT_ADAFACTOR},
	{"muon", SC_OPT_MUON},
	{"shampoo", SC_OPT_SHAMPOO},
	{"kfac", SC_OPT_KFAC},
	{"adamw", SC_OPT_ADAM}, /* its decay costs nothing more */
	{0},
};

enum sc_optimizer sc_optimizer_dense(enum sc_optimizer optimizer)
{
	return optimizer == SC_OPT_ROWWISE_ADAGRAD ? SC_OPT_ADAGRAD
	       : optimizer == SC_OPT_ATOMIC_SGD    ? SC_OPT_SGD
						   : optimizer;
}

#define FP32 4.0
const struct sc_optimizer_traits *sc_optimizer_traits_of(enum sc_optimizer optimizer)
{
	static const struct sc_optimizer_traits traits[SC_N_OPTIMIZERS] = {
		[SC_OPT_ADAM] = {.moments = 2},
		[SC_OPT_SGD] = {.moments = 1}, /* with momentum */
		[SC_OPT_ADAGRAD] = {.moments = 1},
		[SC_OPT_NONE] = {0},
		/* Dettmers et al., ICLR 2022: a byte each, and an fp32 scale for 2,048 of them */
		[SC_OPT_ADAM_8BIT] = {.moments = 2, .moment_bytes = 1 + FP32 / 2048},
		[SC_OPT_LION] = {.moments = 1}, /* Chen et al., NeurIPS 2023, algorithm 2 */
		/* You et al., ICLR 2020: the update is written, and read with the weight for their
		 * norms, and once more to be applied */
		[SC_OPT_LAMB] = {.moments = 2, .more_bytes = 4 * FP32},
		/* Shazeer and Stern, ICML 2018, without momentum: sums of rows and columns in place
		 * of moments; the gradient is read for each */
		[SC_OPT_ADAFACTOR] = {.more_bytes = 2 * FP32},
		[SC_OPT_MUON] = {.moments = 1, .matrices = SC_MATRIX_MUON}, /* Jordan et al. 2024 */
		/* Gupta et al., ICML 2018, with momentum; blocks as Meta's Distributed Shampoo
		 * takes them (Shi et al. 2023), which advises roots every 50 to 100 steps */
		[SC_OPT_SHAMPOO] = {.moments = 1,
				    .matrices = SC_MATRIX_SHAMPOO,
				    .factor_every = 1,
				    .inverse_every = 100,
				    .block = 1024},
		/* KAISA (Pauloski et al., SC 2021) over SGD with momentum; its ImageNet example */
		[SC_OPT_KFAC] = {.moments = 1,
				 .matrices = SC_MATRIX_KFAC,
				 .factor_every = 10,
				 .inverse_every = 100},
	};

	return &traits[sc_optimizer_dense(optimizer)];
}

double sc_optimizer_step_bytes(enum sc_optimizer optimizer)
{
	const struct sc_optimizer_traits *t = sc_optimizer_traits_of(optimizer);
	/* their SGD has no momentum */
	double moments = sc_optimizer_dense(optimizer) == SC_OPT_SGD ? 0 : t->moments;
	double each = t->moment_bytes > 0 ? t->moment_bytes : FP32;

	if (optimizer == SC_OPT_NONE)
		return 0;
	return FP32 + 2 * (FP32 + moments * each) + t->more_bytes;
}
