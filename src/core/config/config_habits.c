/* What a stack does by habit where a request leaves it open: how it interleaves, which tokens it pads,
 * what it recomputes and replays. */
#include <inttypes.h>
#include <math.h>

#include "core/config/config_priv.h"

/* A stack that interleaves by habit: chunks of two layers, where they split so. */
void sc_config_interleave(struct sc_request *req)
{
	struct sc_parallel *par = &req->config.parallel;
	int64_t layers = req->config.model.layers, chunks;

	if (par->pp < 2 || layers < 1 || layers % par->pp || par->stage_layers.n ||
	    par->schedule != SC_SCHED_1F1B)
		return;
	chunks = layers / par->pp;
	par->virtual_stages = chunks % 2 ? chunks : chunks / 2;
	sc_warn(&req->warnings,
		"parallel.virtual_stages is not given; %" PRId64 " is taken, as %s's recipes do",
		par->virtual_stages, req->software.id);
}

/* Lengths of BERT's samples: exponential with this mean, cut at seq. Half of 512 is what MLPerf's
 * Wikipedia has (mlcommons/training, BERT reference: 254 tokens of 512 on average). */
#define MEAN_SAMPLE_TOKENS 320.0
enum { DEFAULT_LORA_RANK = 16 };

static double mean_fill(double seq, double bin_tokens)
{
	double tokens = MEAN_SAMPLE_TOKENS * -expm1(-seq / MEAN_SAMPLE_TOKENS);

	return fmin((tokens + bin_tokens / 2) / seq, 1);
}

/* Padded samples are computed in full; those of a causal model are cut from one long text. */
static void resolve_fill(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	bool causal = sc_family_traits(req->config.model.family)->causal;
	double seq = (double)req->config.model.seq, from_seq = req->software.unpadded_from_seq;
	double bin = tr->unpadded ? 0 : req->software.length_bin_tokens;

	if (from_seq > 0 && seq >= from_seq && !causal)
		tr->unpadded = true;
	if (!tr->unpadded && tr->fill_fraction >= 0 && tr->fill_fraction < 1)
		sc_warn(&req->warnings,
			"training.fill_fraction has no effect without training.unpadded");
	if (!tr->unpadded)
		tr->fill_fraction = 1;
	if (tr->fill_fraction >= 0)
		return;
	tr->fill_fraction = causal ? 1 : mean_fill(seq, bin);
	if (causal)
		sc_warn(&req->warnings,
			"training.unpadded has no effect on a causal model's full samples; give "
			"training.fill_fraction if they are not full");
	else
		sc_warn(&req->warnings,
			"training.fill_fraction is not given; %.2f of every sample is taken to be "
			"tokens",
			tr->fill_fraction);
}

void sc_config_fill_options(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;

	resolve_fill(req);
	if (tr->expert_imbalance < 0 && sc_model_is_moe(&req->config.model))
		tr->expert_imbalance = 1;
	if (tr->trainable == SC_TRAIN_LORA) {
		if (tr->lora_rank == SC_NOT_GIVEN)
			tr->lora_rank = DEFAULT_LORA_RANK;
		if ((int)tr->lora_targets == SC_NOT_GIVEN)
			tr->lora_targets = SC_LORA_ATTENTION;
	}
	if ((int)tr->recompute == SC_NOT_GIVEN)
		tr->recompute = req->software.recomputes ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_NONE;
	tr->cuda_graphs = tr->cuda_graphs || req->software.cuda_graphs;
}
