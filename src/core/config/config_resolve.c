/* A request with its profiles and every default filled (docs/keys.md). This file says what a
 * missing value means; what does not fit together is config_check.c's.
 *
 * A value arises in this order, and an earlier one is never replaced by a later:
 *
 *  1. config.c           what the file says; --set, options and rows of a table are layers over it,
 * and each value keeps the place where it was given (config_origin.c).
 *  2. resolve_profiles   the GPUs of cluster.nodes or cluster.gpu; training.software, and the
 * release of it that the GPU, the version or a sign asks for; habits that choose a fabric; the
 * fabric.
 *  3. resolve_model      facts of a known model where a mixture leaves them out; widths that follow
 * from others; the kind of each layer (config_pattern.c).
 *  4. resolve_parallel   habits of the split; tp, pp, cp, ep, and gpus from dp or dp from gpus; the
 * schedule and its stages (config_schedule.c); sharding and order of ranks.
 *  5. resolve_torus      a torus is one node of all GPUs (config_cluster.c).
 *  6. resolve_cluster    what cluster.topology's graph says; GPUs of a node, NVLink domain, NICs,
 * host memory: the usual ones of the GPU.
 *  7. resolve_training   habits of the precision; the precision; all other habits; the vocabulary;
 * options of the software (config_habits.c); the micro-batch and how many there are.
 *  8. resolve_offload    places and shares of training.offload.
 *  9. resolve_c3         policies of communication by family, which need the split (config_c3.c).
 * 10. sc_config_check    nothing is filled any more: what contradicts is refused, what has no
 * effect is said.
 * 11. take_endpoint      what a torus keeps for communication goes off the device's SMs, math and
 * memory.
 * 12. resolve_band       the error band, by what the request is alike in (likeness.c).
 *
 * Habits are pieces of config in a software's profile. One is taken at the stage that its key is
 * needed at, only where the request leaves the key open, and its conditions may ask for nothing
 * that arises later: load_piece refuses the profile otherwise. */
#include <inttypes.h>
#include <string.h>

#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

/* The memory that TorchRec's planner takes a rank's host to have
 * (torchrec/distributed/planner/constants.py: DDR_CAP), GiB. */
#define USUAL_HOST_GIB 128.0

static void default_int(int64_t *value, int64_t def)
{
	if (*value == SC_NOT_GIVEN)
		*value = def;
}

void sc_config_host_memory(struct sc_request *req)
{
	struct sc_cluster *cl = &req->config.cluster;

	if (cl->host_memory_gib < 0)
		cl->host_memory_gib = USUAL_HOST_GIB * (double)sc_request_node_gpus(req);
	if (cl->host_memory_gbps <= 0)
		cl->host_memory_gbps = req->device.usual_host_gbps * (double)cl->gpus_per_node;
}

#define DEFAULT_ORDER "tp-cp-ep-dp-pp"

static int resolve_profiles(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_config *cfg = &req->config;
	struct sc_err own = {.code = SC_OK};
	const struct sc_device *device;
	const struct sc_software *software;
	const struct sc_fabric_profile *fabric;
	int rc = sc_nodes_resolve(res);

	if (rc)
		return rc;
	if (!cfg->cluster.gpu)
		return sc_resolve_fail(res, SC_EVALUE, "cluster",
				       "cluster.gpu is not given; name a GPU as in `cluster: {gpu: "
				       "a100-sxm-80gb}`");
	if (sc_catalog_device(res->catalog, cfg->cluster.gpu, &device, &own))
		return sc_resolve_profile_error(res, "cluster.gpu", &own);
	if (!cfg->training.software)
		cfg->training.software = SC_DEFAULT_SOFTWARE;
	if (sc_catalog_software(res->catalog, cfg->training.software, &software, &own))
		return sc_resolve_profile_error(res, "training.software", &own);
	req->device = *device;
	rc = sc_config_take_release(res, &software);
	if (rc)
		return rc;
	req->software = *software;
	if (cfg->dlrm.host_sample_us >= 0)
		req->software.dlrm.host_sample_us = cfg->dlrm.host_sample_us;
	sc_habits_take(req, SC_HABIT_CLUSTER);
	if (sc_catalog_fabric(res->catalog, cfg->cluster.fabric, &fabric, &own))
		return sc_resolve_profile_error(res, "cluster.fabric", &own);
	req->fabric_profile = *fabric;
	return 0;
}

/* DeepSeek-V2's widths, where a model with latent attention leaves them out. */
enum { MLA_HEAD_DIM = 128, MLA_ROPE_HEAD_DIM = 64, MLA_KV_LORA_RANK = 512 };

/* Sizes that follow from others; a family without gates has a feed-forward layer of 4 hidden. */
static void resolve_widths(struct sc_model *model)
{
	const struct sc_family_traits *traits = sc_family_traits(model->family);

	default_int(&model->kv_heads, model->heads);
	if (model->family == SC_MOE_MLA || model->kv_lora_rank != SC_NOT_GIVEN) {
		default_int(&model->kv_lora_rank, MLA_KV_LORA_RANK);
		default_int(&model->q_lora_rank, 0);
		default_int(&model->head_dim, MLA_HEAD_DIM);
		default_int(&model->rope_head_dim, MLA_ROPE_HEAD_DIM);
		default_int(&model->v_head_dim, model->head_dim);
	}
	if (model->hidden != SC_NOT_GIVEN) {
		default_int(&model->ffn_hidden, 4 * model->hidden);
		if (model->heads > 0)
			default_int(&model->head_dim, model->hidden / model->heads);
	}
	if (model->tied_embeddings == SC_NOT_GIVEN)
		model->tied_embeddings = traits->tied;
	if (model->biases == SC_NOT_GIVEN)
		model->biases = traits->biases;
	if (model->qk_norm == SC_NOT_GIVEN)
		model->qk_norm = false;
	default_int(&model->mtp_layers, 0);
	if (model->experts == SC_NOT_GIVEN)
		return;
	default_int(&model->shared_experts, 0);
	default_int(&model->dense_layers, 0);
	default_int(&model->experts_every, 1);
	default_int(&model->top_k, 1);
	default_int(&model->expert_groups, 1);
	default_int(&model->top_groups, model->expert_groups);
	default_int(&model->expert_ffn_hidden, model->ffn_hidden);
}

static int resolve_model(const struct sc_resolver *res)
{
	struct sc_model *model = &res->request->config.model;
	struct sc_training *tr = &res->request->config.training;
	int rc;

	if (model->family == SC_FAMILY_NONE)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.family is not given; write one of gpt, llama, mpt, bert, "
			"opt, moe, moe-mla, nemotron-h, dit, dlrm, layers");
	if (sc_family_traits(model->family)->experts && model->experts == SC_NOT_GIVEN &&
	    model->family != SC_NEMOTRON_H) {
		rc = sc_known_model_fill(res->request, res->catalog, res->err);
		if (rc)
			return rc;
	}
	if (model->family == SC_DLRM && (int)model->interaction == SC_NOT_GIVEN &&
	    model->hstu.layers < 1)
		model->interaction = SC_INTERACT_DOT;
	resolve_widths(model);
	if (sc_model_is_transformer(model)) {
		sc_habits_take(res->request, SC_HABIT_LAYERS);
		default_int(&tr->bf16_first_layers, 0);
		default_int(&tr->bf16_last_layers, 0);
		model->wide_first = tr->bf16_first_layers;
		model->wide_last = tr->bf16_last_layers;
	}
	return sc_config_resolve_pattern(res);
}

/* Ranks of a replica that leave every replica a sample, if a node has them; else 1. */
static int64_t ranks_for_batch(const struct sc_request *req)
{
	const struct sc_config *cfg = &req->config;
	int64_t batch = cfg->training.global_batch, per_node = cfg->cluster.gpus_per_node, n = 1;

	if (per_node == SC_NOT_GIVEN)
		per_node = req->device.usual_gpus_per_node;
	while (n < per_node && cfg->gpus > batch * n)
		n *= 2;
	return n > per_node || cfg->gpus % n || cfg->gpus / n > batch ? 1 : n;
}

/* Nothing says how a batch smaller than the number of GPUs is split: as many tensor-parallel ranks
 * as leave every replica a sample. */
static void choose_split(struct sc_request *req)
{
	struct sc_config *cfg = &req->config;
	struct sc_parallel *par = &cfg->parallel;
	int64_t batch = cfg->training.global_batch, n;

	if (par->tp != SC_NOT_GIVEN || par->pp != SC_NOT_GIVEN || par->dp != SC_NOT_GIVEN ||
	    par->cp != SC_NOT_GIVEN || batch < 1 || cfg->gpus <= batch)
		return;
	n = ranks_for_batch(req);
	if (n < 2 || cfg->model.heads % n)
		return;
	par->tp = n;
	sc_warn(&req->warnings,
		"parallel is not given, and training.global_batch %" PRId64
		" is less than gpus %" PRId64 ": tp %" PRId64 " is taken",
		batch, cfg->gpus, n);
}

/* gpus from the split, or dp from gpus. */
static int resolve_gpus(const struct sc_resolver *res)
{
	struct sc_config *cfg = &res->request->config;
	struct sc_parallel *par = &cfg->parallel;
	bool has_split =
		par->tp != SC_NOT_GIVEN && par->pp != SC_NOT_GIVEN && par->dp != SC_NOT_GIVEN;
	int64_t replica;

	choose_split(res->request);
	default_int(&par->tp, 1);
	default_int(&par->pp, 1);
	default_int(&par->cp, 1);
	default_int(&par->ep, 1);
	if (cfg->model.experts > 0)
		default_int(&par->etp, par->tp);
	replica = par->tp * par->pp * par->cp;
	if (cfg->gpus == SC_NOT_GIVEN && !has_split)
		return sc_resolve_fail(
			res, SC_EVALUE, "gpus",
			"gpus is not given; write it, or all of parallel.tp, pp and dp");
	if (cfg->gpus == SC_NOT_GIVEN)
		cfg->gpus = replica * par->dp;
	if (cfg->gpus > SC_MAX_GPUS)
		return sc_resolve_fail(res, SC_ELIMIT, "parallel.dp",
				       "%" PRId64
				       " GPUs (tp x pp x cp x dp) are too many; at most %d",
				       cfg->gpus, SC_MAX_GPUS);
	if (par->dp != SC_NOT_GIVEN)
		return 0;
	if (cfg->gpus % replica)
		return sc_resolve_fail(res, SC_ECONFLICT, "gpus",
				       "gpus %" PRId64 " do not split into replicas of tp %" PRId64
				       " x pp %" PRId64 " x cp %" PRId64 " = %" PRId64
				       " GPUs; make gpus a multiple of that",
				       cfg->gpus, par->tp, par->pp, par->cp, replica);
	par->dp = cfg->gpus / replica;
	return 0;
}

static int resolve_parallel(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_parallel *par = &req->config.parallel;
	int rc;

	sc_habits_take(req, SC_HABIT_SPLIT);
	rc = resolve_gpus(res);
	if (rc)
		return rc;
	rc = sc_config_resolve_schedule(res);
	if (rc)
		return rc;
	if (req->software.distributed_optimizer && sc_model_is_transformer(&req->config.model) &&
	    !sc_config_origin(&req->config, "parallel.sharding"))
		par->sharding = SC_ZERO1;
	/* A request that names no software is not refused for a habit of the likeliest stack. */
	if (sc_habit_taken(req, "parallel.sequence_parallel") &&
	    strcmp(req->config.training.software, SC_DEFAULT_SOFTWARE) == 0 &&
	    req->config.model.seq / par->cp % par->tp)
		par->sequence_parallel = false;
	if (sc_habit_taken(req, "parallel.tp_overlap") && !(par->sequence_parallel && par->tp > 1))
		par->tp_overlap = false;
	if (par->schedule != SC_SCHED_AUTO && sc_habit_taken(req, "parallel.auto_among"))
		par->auto_among = SC_NOT_GIVEN;
	/* A request's own word on its stages is more than a habit of balancing them. */
	if (sc_habit_taken(req, "parallel.stage_layers") &&
	    (par->layout || par->count_embedding || par->count_loss))
		par->stage_layers.n = 0;
	req->software.layer_updates = req->software.grad_sync == SC_GRAD_BY_LAYER;
	if (req->software.layer_updates ||
	    (req->software.grad_sync == SC_GRAD_OVERLAP_UNSHARDED && par->sharding == SC_ZERO_NONE))
		req->software.grad_sync = SC_GRAD_OVERLAP;
	else if (req->software.grad_sync == SC_GRAD_OVERLAP_UNSHARDED)
		req->software.grad_sync = SC_GRAD_AFTER;
	if (!par->order)
		par->order = DEFAULT_ORDER;
	return 0;
}

/* The one of the usual nodes of all kinds that has the slowest network. */
static const struct sc_device *slowest_usual_node(const struct sc_request *req)
{
	const struct sc_device *slowest = &req->device;

	for (size_t k = 1; k < sc_request_n_kinds(req); k++) {
		const struct sc_device *dev = sc_request_device(req, k);

		if ((double)dev->usual_nics_per_node * dev->usual_nic_gbit_s <
		    (double)slowest->usual_nics_per_node * slowest->usual_nic_gbit_s)
			slowest = dev;
	}
	return slowest;
}

static int resolve_nics(const struct sc_resolver *res, bool is_multi_node)
{
	struct sc_request *req = res->request;
	struct sc_cluster *cl = &req->config.cluster;
	const struct sc_device *dev = slowest_usual_node(req);
	bool has_count = cl->nics_per_node != SC_NOT_GIVEN, has_rate = cl->nic_gbit_s >= 0;

	if (is_multi_node && (!has_count || !has_rate) &&
	    (dev->usual_nics_per_node < 1 || !(dev->usual_nic_gbit_s > 0)))
		return sc_resolve_fail(
			res, SC_EVALUE, "cluster",
			"cluster.nics_per_node and cluster.nic_gbit_s are needed: more "
			"than one node, and the usual node of %s is not known",
			dev->id);
	if (!has_count)
		cl->nics_per_node = dev->usual_nics_per_node;
	if (!has_rate)
		cl->nic_gbit_s = dev->usual_nic_gbit_s;
	if (is_multi_node && (!has_count || !has_rate))
		sc_warn(&req->warnings,
			"NICs are not given; the usual node of %s is taken: nics_per_node %" PRId64
			", nic_gbit_s %g",
			dev->id, cl->nics_per_node, cl->nic_gbit_s);
	return 0;
}

static int resolve_cluster(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_cluster *cl = &req->config.cluster;
	int64_t gpus = req->config.gpus, usual = req->device.usual_gpus_per_node;

	sc_config_take_wiring(cl, &req->device);
	if (cl->gpus_per_node == SC_NOT_GIVEN) {
		if (usual < 1)
			return sc_resolve_fail(res, SC_EVALUE, "cluster",
					       "cluster.gpus_per_node is not given, and the usual "
					       "node of %s is not known",
					       req->device.id);
		cl->gpus_per_node = usual;
		if (gpus > usual)
			sc_warn(&req->warnings,
				"cluster.gpus_per_node is not given; the usual %" PRId64
				" of %s is taken",
				usual, req->device.id);
	}
	/* By its name a machine is what it is for every command. */
	if (cl->scale_up_gpus == SC_NOT_GIVEN && req->n_kinds < 2) {
		cl->scale_up_gpus = sc_device_usual_domain(&req->device, cl->gpus_per_node);
		if (cl->scale_up_gpus > cl->gpus_per_node && gpus > cl->gpus_per_node)
			sc_warn(&req->warnings,
				"cluster.scale_up_gpus is not given; the usual NVLink domain of %s is "
				"taken: %" PRId64 " GPUs",
				req->device.id, cl->scale_up_gpus);
	}
	default_int(&cl->scale_up_gpus, cl->gpus_per_node);
	if (req->config.model.family == SC_DLRM)
		sc_config_host_memory(req);
	if (gpus > cl->gpus_per_node && gpus % cl->gpus_per_node)
		sc_warn(&req->warnings,
			"gpus %" PRId64 " do not fill nodes of %" PRId64
			"; the last node has %" PRId64,
			gpus, cl->gpus_per_node, gpus % cl->gpus_per_node);
	return resolve_nics(res, gpus > cl->gpus_per_node && gpus > cl->scale_up_gpus);
}

/* GPT-2's tokenizer, padded to a multiple of 1024 as Megatron's examples do. */
enum { DEFAULT_VOCAB = 51200 };

static void resolve_precision(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;

	if ((int)tr->precision != SC_NOT_GIVEN)
		return;
	tr->precision = sc_kind_without(req, SC_BF16) ? SC_P_FP16 : SC_P_BF16;
	sc_warn(&req->warnings, "training.precision is not given; %s is taken",
		tr->precision == SC_P_BF16 ? "bf16" : "fp16");
}

/* The replica with the most samples sets the time; its last micro-batch may be partial. */
static void split_batch(struct sc_request *req)
{
	const struct sc_parallel *par = &req->config.parallel;
	struct sc_training *tr = &req->config.training;
	int64_t samples = (tr->global_batch + par->dp - 1) / par->dp;

	if (tr->global_batch % par->dp)
		sc_warn(&req->warnings,
			"training.global_batch %" PRId64 " does not divide over dp %" PRId64
			"; the replicas with %" PRId64 " samples set the time",
			tr->global_batch, par->dp, samples);
	default_int(&tr->micro_batch, par->pp == 1 ? samples : 1);
	if (tr->micro_batch > samples) {
		if (!sc_habit_taken(req, "training.micro_batch"))
			sc_warn(&req->warnings,
				"training.micro_batch %" PRId64 " is more than the %" PRId64
				" samples of a replica; it is taken as %" PRId64,
				tr->micro_batch, samples, samples);
		tr->micro_batch = samples;
	}
	req->n_micro_batches = (samples + tr->micro_batch - 1) / tr->micro_batch;
	req->last_micro_batch = (double)(samples - (req->n_micro_batches - 1) * tr->micro_batch);
	if (samples % tr->micro_batch)
		sc_warn(&req->warnings,
			"training.micro_batch %" PRId64 " does not divide the %" PRId64
			" samples of a replica; the last one has %g",
			tr->micro_batch, samples, req->last_micro_batch);
	if (par->schedule == SC_SCHED_INTERLEAVED && req->n_micro_batches % par->pp)
		sc_warn(&req->warnings,
			"%" PRId64 " micro-batches are no multiple of pp %" PRId64
			"; Megatron-LM refuses that with virtual_stages above 1",
			req->n_micro_batches, par->pp);
}

static int resolve_training(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	const struct sc_training *tr = &req->config.training;
	int64_t dp = req->config.parallel.dp;

	if (tr->global_batch == SC_NOT_GIVEN)
		return sc_resolve_fail(res, SC_EVALUE, "training",
				       "training.global_batch is not given; it is the number of "
				       "samples of one iteration, over all replicas");
	if (tr->global_batch < dp)
		return sc_resolve_fail(
			res, SC_ECONFLICT, "training.global_batch",
			"training.global_batch %" PRId64 " is less than the %" PRId64
			" data-parallel replicas; each needs a sample, so raise it or use fewer %s",
			tr->global_batch, dp,
			sc_model_is_transformer(&req->config.model) ? "replicas (more tp, pp or cp)"
								    : "GPUs");
	sc_habits_take(req, SC_HABIT_PRECISION);
	resolve_precision(req);
	sc_habits_take(req, SC_HABIT_REST);
	if (sc_family_traits(req->config.model.family)->denoises) {
		if (req->config.model.vocab != SC_NOT_GIVEN)
			sc_warn(&req->warnings, "model.vocab has no effect: a dit has none");
		req->config.model.vocab = 0;
	}
	if (req->config.model.vocab == SC_NOT_GIVEN &&
	    sc_model_is_transformer(&req->config.model)) {
		req->config.model.vocab = DEFAULT_VOCAB;
		sc_warn(&req->warnings, "model.vocab is not given; %d is taken", DEFAULT_VOCAB);
	}
	sc_config_fill_options(req);
	split_batch(req);
	return 0;
}

/* Errors of a model go by its kind: what mixes its tokens, and whether it has experts. */
static const char *band_model(const struct sc_model *model)
{
	const struct sc_layer_counts layers = sc_model_count(model, 0, model->layers);

	if (model->family == SC_DLRM)
		return "dlrm";
	if (model->family == SC_LAYERS)
		return "layers";
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (layers.of[kind] > 0 && sc_model_kind(model, kind).mixer > SC_MIX_FULL)
			return model->family == SC_DIT ? "diffusion" : "hybrid";
	return sc_model_is_moe(model) ? "mixture" : "dense";
}

/* Texts of the catalog, or constant. */
static int resolve_band(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	const struct sc_config *cfg = &req->config;
	const double bytes = sc_dtype_bytes(sc_precision_dtype(cfg->training.precision));
	const bool is_many = cfg->gpus > sc_request_node_gpus(req);
	struct sc_err own = {.code = SC_OK};
	const struct sc_like like = {
		.at = {[SC_LIKE_GPU] = req->n_kinds > 1 ? "mixed" : req->device.id,
		       [SC_LIKE_SOFTWARE] = req->software.id,
		       [SC_LIKE_MODEL] = band_model(&cfg->model),
		       [SC_LIKE_NODES] = is_many ? "many" : "one",
		       [SC_LIKE_BITS] = bytes > 2   ? "32"
					: bytes > 1 ? "16"
						    : "8",
		       [SC_LIKE_NETWORK] = is_many ? sc_fabric_net_get(&req->fabric_profile,
								       cfg->cluster.fabric)
							     ->kind
						   : "none"}};

	if (sc_catalog_band(res->catalog, &like, req->software.band_ln, &req->band, &own))
		return sc_resolve_profile_error(res, "training", &own);
	return 0;
}

int sc_config_resolve(const struct sc_config *config, struct sc_catalog *catalog, const char *file,
		      struct sc_request *out, struct sc_err *err)
{
	static int (*const steps[])(const struct sc_resolver *) = {
		resolve_profiles,          resolve_model,        resolve_parallel,
		sc_config_resolve_torus,   resolve_cluster,      resolve_training,
		sc_config_resolve_offload, sc_config_resolve_c3, sc_config_check,
		sc_config_take_endpoint,   resolve_band,
	};
	struct sc_request request;
	struct sc_resolver res = {
		.request = &request,
		.catalog = catalog,
		.file = file ? file : config->file,
		.err = err,
	};
	int rc = 0;

	memset(&request, 0, sizeof(request));
	request.kernel_sm_frac = 1;
	request.config = *config;
	for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
		rc = steps[i](&res);
	if (rc == 0)
		*out = request;
	return rc;
}
