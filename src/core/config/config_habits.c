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

	if (par->pp < 2 || layers < 1 || layers % par->pp || par->stage_layers.n || par->layout ||
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

static bool is_given(const struct sc_request *req, const char *path)
{
	return sc_config_origin(&req->config, path) != NULL;
}

/* A stack that batches samples by length leaves out most of their padding, unless told not to. */
static void batch_by_length(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	double bin = req->software.length_bin_tokens;
	double fill = mean_fill((double)req->config.model.seq, bin);

	if (is_given(req, "training.unpadded") || !(bin > 0) || fill >= 1 ||
	    !sc_model_is_transformer(&req->config.model) ||
	    sc_family_traits(req->config.model.family)->causal)
		return;
	tr->unpadded = true;
	if (tr->fill_fraction < 0)
		tr->fill_fraction = fill;
	sc_warn(&req->warnings,
		"%s batches samples by length: training.unpadded is taken with fill_fraction %.2f; "
		"unpadded: false pads them",
		req->software.id, tr->fill_fraction);
}

/* Padded samples are computed in full; those of a causal model are cut from one long text. */
static void resolve_fill(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	bool causal = sc_family_traits(req->config.model.family)->causal;

	batch_by_length(req);
	if (!tr->unpadded && tr->fill_fraction >= 0 && tr->fill_fraction < 1)
		sc_warn(&req->warnings,
			"training.fill_fraction has no effect without training.unpadded");
	if (!tr->unpadded)
		tr->fill_fraction = 1;
	if (tr->fill_fraction >= 0)
		return;
	tr->fill_fraction = causal ? 1 : mean_fill((double)req->config.model.seq, 0);
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

static bool recomputes(const struct sc_request *req)
{
	double below_gib = req->software.recomputes_below_gib;

	return req->software.recomputes && (below_gib <= 0 || req->device.hbm_gib < below_gib);
}

static void resolve_recompute(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;

	if (tr->recompute != SC_NOT_GIVEN)
		return;
	tr->recompute = recomputes(req) ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_NONE;
	if (tr->recompute == SC_RECOMPUTE_NONE)
		return;
	if (tr->recompute_layers < 1 && req->software.recompute_layers > 0)
		tr->recompute_layers = (int64_t)req->software.recompute_layers;
	sc_warn(&req->warnings,
		"training.recompute is not given; full is taken, as %s's recipes do",
		req->software.id);
}

static void resolve_planner(struct sc_request *req)
{
	struct sc_sharding_plan *plan = &req->config.sharding;

	if (req->config.model.family != SC_DLRM || plan->plan || plan->planner != SC_PLANNER_NONE)
		return;
	plan->planner = req->software.dlrm.planner;
	if (plan->planner == SC_PLANNER_NONE)
		plan->planner = SC_PLANNER_STEPCAST;
}

static void resolve_optimizer(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	bool is_dlrm = req->config.model.family == SC_DLRM;
	enum sc_optimizer dense;

	if ((int)tr->optimizer == SC_NOT_GIVEN)
		tr->optimizer = is_dlrm ? req->software.dlrm.optimizer : SC_OPT_ADAM;
	dense = sc_optimizer_dense(tr->optimizer);
	if (is_dlrm || dense == tr->optimizer)
		return;
	sc_warn(&req->warnings, "training.optimizer %s is of embedding tables; %s is taken",
		sc_enum_name(sc_optimizer_names, (int)tr->optimizer),
		sc_enum_name(sc_optimizer_names, (int)dense));
	tr->optimizer = dense;
}

/* An NVLink domain beyond a node. */
static bool has_domain(const struct sc_request *req)
{
	return req->config.cluster.scale_up_gpus > req->config.cluster.gpus_per_node;
}

/* Kernels that send a token once take no fixed capacity (Megatron Core, transformer_config.py). */
static enum sc_dispatcher usual_dispatcher(const struct sc_request *req)
{
	if (req->config.training.routing == SC_ROUTING_DROPPED)
		return SC_DISPATCH_ALL_TO_ALL;
	return has_domain(req) ? req->software.moe_dispatcher_domain : req->software.moe_dispatcher;
}

static int usual_graphs(const struct sc_request *req)
{
	if (!sc_model_is_moe(&req->config.model))
		return req->software.cuda_graphs;
	return has_domain(req) ? req->software.moe_cuda_graphs_domain
			       : req->software.moe_cuda_graphs;
}

static void resolve_experts(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;

	if (!sc_model_is_moe(&req->config.model))
		return;
	if (tr->expert_imbalance < 0)
		tr->expert_imbalance = 1;
	if ((int)tr->moe_dispatcher == SC_NOT_GIVEN)
		tr->moe_dispatcher = usual_dispatcher(req);
	if (!is_given(req, "training.moe_overlap"))
		tr->moe_overlap = req->software.moe_overlap;
}

void sc_config_fill_options(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;

	resolve_planner(req);
	resolve_optimizer(req);
	resolve_fill(req);
	resolve_experts(req);
	if (tr->trainable == SC_TRAIN_LORA) {
		if (tr->lora_rank == SC_NOT_GIVEN)
			tr->lora_rank = DEFAULT_LORA_RANK;
		if ((int)tr->lora_targets == SC_NOT_GIVEN)
			tr->lora_targets = SC_LORA_ATTENTION;
	}
	resolve_recompute(req);
	if ((int)tr->fp8_recipe == SC_NOT_GIVEN)
		tr->fp8_recipe = req->software.fp8_recipe;
	if (!is_given(req, "training.cuda_graphs"))
		tr->cuda_graphs = usual_graphs(req);
	if (tr->cuda_graphs & SC_GRAPH_FULL)
		tr->cuda_graphs = 1;
}

bool sc_recomputes(const struct sc_request *request, int module)
{
	int mode = request->config.training.recompute;

	if (mode == SC_RECOMPUTE_SELECTIVE && request->software.selective == SC_SELECTIVE_ATTENTION)
		mode = SC_RECOMPUTE_CORE_ATTN;
	return mode >= SC_FLAG && (mode & module);
}

double sc_recompute_frac(const struct sc_request *request)
{
	double layers = (double)request->config.model.layers / (double)request->config.parallel.pp;
	int64_t given = request->config.training.recompute_layers;

	return given < 1 || (double)given >= layers ? 1 : (double)given / layers;
}

/* How torch.distributed.pipelining, Megatron's FSDP and DeepSpeed go about it is in their profiles. */
struct sc_sharding_rule sc_sharding_rule(const struct sc_request *request)
{
	const struct sc_software *sw = &request->software;
	enum sc_zero sharding = request->config.parallel.sharding;
	bool once = request->config.parallel.pp > 1 && sw->sharded_pipeline == SC_SHARDED_ONCE;

	return (struct sc_sharding_rule){
		.states = sharding != SC_ZERO_NONE,
		.gradients = sharding >= SC_ZERO2,
		.weights = sharding >= SC_ZERO3,
		.scatters =
			sharding >= SC_ZERO2 || (sharding == SC_ZERO1 && sw->distributed_optimizer),
		.gathers_each = !once,
		.gathers_backward = !once && sw->reshard_after_forward,
		.reduces_each = !once && sw->reduce_each_micro_batch,
	};
}
