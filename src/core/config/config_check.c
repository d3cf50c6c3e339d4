/* Does a filled request fit together? Each message says what to do about it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "core/config/config_priv.h"

/* Keys that are given, and have no effect without what the request has not (sc_field.needs). */
static void warn_needs(struct sc_request *req, const struct sc_field *table, const char *section,
		       const unsigned char *place)
{
	const struct sc_config *cfg = &req->config;
	const bool is_dlrm = cfg->model.family == SC_DLRM;
	const struct {
		unsigned bit;
		bool has;
		const char *why;
	} needs[] = {
		{SC_NEEDS_TRANSFORMER, sc_model_is_transformer(&cfg->model),
		 is_dlrm ? ": the model is a DLRM" : ": the model is a table of layers"},
		{SC_NEEDS_DLRM, is_dlrm, ": the model is no DLRM"},
		{SC_NEEDS_EXPERTS, sc_model_is_moe(&cfg->model), ": the model has no experts"},
		{SC_NEEDS_LORA, cfg->training.trainable == SC_TRAIN_LORA,
		 " without training.trainable lora"},
		{SC_NEEDS_LAYERS, cfg->model.family == SC_LAYERS,
		 ": the model is no table of layers (family layers)"},
		{SC_NEEDS_TORUS, cfg->cluster.torus.dims.n > 0, " without cluster.torus"},
		{SC_NEEDS_KFAC, cfg->training.optimizer == SC_OPT_KFAC,
		 " without training.optimizer kfac"},
		{SC_NEEDS_MUON, cfg->training.optimizer == SC_OPT_MUON,
		 " without training.optimizer muon"},
	};

	unsigned lacks = 0;

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		lacks |= needs[i].has ? 0 : needs[i].bit;
	for (; table->key; table++) {
		const unsigned char *at = place + table->offset;

		if (table->type == SC_F_STRUCT && !*section)
			warn_needs(req, table->sub, table->key, at);
		for (size_t i = 0; table->needs & lacks && i < sizeof(needs) / sizeof(needs[0]);
		     i++)
			if ((table->needs & needs[i].bit) && !needs[i].has &&
			    !sc_field_is_absent(table, at))
				sc_warn(&req->warnings, "%s.%s has no effect%s", section,
					table->key, needs[i].why);
	}
}

/* Numbers of another unit than the key's: what was understood. */
static void warn_units(struct sc_request *req)
{
	enum { MANY_SEQUENCES = 100000, SLOW_NIC = 100, FAST_NIC = 1600, FAST_USUAL = 400 };
	const struct sc_config *cfg = &req->config;
	const double gbit_s = cfg->cluster.nic_gbit_s;

	if (sc_model_is_transformer(&cfg->model) && cfg->training.global_batch > MANY_SEQUENCES)
		sc_warn(&req->warnings,
			"training.global_batch %lld is taken as sequences, %.3g tokens a step: divide tokens "
			"by model.seq",
			(long long)cfg->training.global_batch,
			(double)cfg->training.global_batch * (double)cfg->model.seq);
	if (sc_config_origin(cfg, "cluster.nic_gbit_s") &&
	    (gbit_s > FAST_NIC ||
	     (gbit_s < SLOW_NIC && req->device.usual_nic_gbit_s >= FAST_USUAL)))
		sc_warn(&req->warnings,
			"cluster.nic_gbit_s %g is taken as Gbit/s of one NIC, %.4g GB/s each, %lld a node",
			gbit_s, gbit_s / SC_BITS_PER_BYTE, (long long)cfg->cluster.nics_per_node);
}

/* Tensor-parallel collectives wait for such threads if they or stages reach over the network. */
static void warn_progress(struct sc_request *req)
{
	const struct sc_parallel *par = &req->config.parallel;
	const int64_t node = sc_request_node_gpus(req);
	const bool in_node =
		par->pp == 1 && strncmp(par->order, "tp", 2) == 0 && node % par->tp == 0;

	if (req->config.cluster.progress_us > 0 &&
	    (par->tp == 1 || in_node || req->config.gpus <= node))
		sc_warn(&req->warnings,
			"cluster.progress_us has no effect: tensor-parallel ranks are on one "
			"node, and no stages on others");
}

static void warn_all(struct sc_request *req)
{
	for (size_t i = 0; i < sc_request_n_kinds(req); i++) {
		const struct sc_device *device = sc_request_device(req, i);

		if (device->rank_has)
			sc_warn(&req->warnings,
				"a rank has all of a %s here, but software sees it as several GPUs: "
				"write %s for the GPU, and count those",
				device->id, device->rank_has);
	}
	warn_units(req);
	warn_progress(req);
	warn_needs(req, sc_config_fields, "", (const unsigned char *)&req->config);
	if (req->config.model.family == SC_DLRM)
		sc_config_warn_dlrm(req);
	else if (req->config.model.family == SC_LAYERS) {
		const struct sc_training *tr = &req->config.training;

		if (tr->recompute != SC_RECOMPUTE_NONE)
			sc_warn(&req->warnings,
				"training.recompute has no effect: the model is a table of layers");
		if (tr->trainable == SC_TRAIN_LORA)
			sc_warn(&req->warnings,
				"training.trainable has no effect: all of a table of layers is trained");
	} else {
		const struct sc_parallel *par = &req->config.parallel;
		const struct sc_model *model = &req->config.model;
		const struct sc_training *tr = &req->config.training;

		if (model->mtp_layers > 0 && par->pp > 1 && !par->stage_layers.n && !par->layout &&
		    !par->count_embedding && !par->count_loss)
			sc_warn(&req->warnings,
				"model.mtp_layers divides the pipeline anew: with the loss they count as layers, and "
				"the last chunk has fewer others; parallel.stage_layers sets them");
		if (sc_model_is_moe(model) && par->tp > 1 && par->etp == par->tp &&
		    !sc_config_origin(&req->config, "parallel.etp"))
			sc_warn(&req->warnings,
				"parallel.etp is not given: tp cuts the experts, too, as is Megatron's "
				"default; recipes of mixtures give parallel.etp 1, which often is faster");
		if (model->sliding_window > 0 && model->sliding_window < model->seq &&
		    tr->attention == SC_ATT_UNFUSED)
			sc_warn(&req->warnings,
				"model.sliding_window saves no time with training.attention unfused: all scores "
				"are computed, and the window is a mask laid over them");
		if (tr->recompute_layers > 0 && tr->recompute != SC_RECOMPUTE_FULL)
			sc_warn(&req->warnings, "training.recompute_layers has no effect yet");
		if (model->wide_first + model->wide_last > 0 &&
		    sc_precision_dtype(tr->precision) < SC_FP8)
			sc_warn(&req->warnings,
				"training.bf16_first_layers and bf16_last_layers have no effect: no "
				"products are in fp8 or fp4");
		if (par->tp_overlap && par->tp == 1)
			sc_warn(&req->warnings, "parallel.tp_overlap has no effect with tp 1");
		if (par->shard_ranks > 0 && par->sharding == SC_ZERO_NONE)
			sc_warn(&req->warnings,
				"parallel.shard_ranks has no effect with parallel.sharding none");
		if (par->sharding != SC_ZERO_NONE && par->dp * par->cp == 1 &&
		    sc_config_origin(&req->config, "parallel.sharding"))
			sc_warn(&req->warnings,
				"parallel.sharding has no effect: there is one data-parallel rank");
		if (par->cp > 1 && req->config.training.attention == SC_ATT_UNFUSED)
			sc_warn(&req->warnings,
				"training.attention unfused with parallel.cp above 1: frameworks pass keys "
				"and values round a ring of fused kernels only");
		if (tr->master_bytes >= 0 && sc_storage_dtype(tr->precision) == SC_FP32)
			sc_warn(&req->warnings,
				"training.master_bytes has no effect: the optimizer updates fp32 weights");
		if ((tr->master_bytes >= 0 || tr->moment_bytes > 0) && tr->optimizer == SC_OPT_NONE)
			sc_warn(&req->warnings,
				"training.moment_bytes and master_bytes have no effect: there is no optimizer");
		sc_config_warn_offload(req);
	}
}

/* Refuses what a step of whole matrices does not go with. */
static int check_matrices(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	enum sc_optimizer optimizer = cfg->training.optimizer;
	enum sc_matrix_step step = sc_optimizer_traits_of(optimizer)->matrices;
	const char *name = sc_enum_name(sc_optimizer_names, (int)optimizer);

	if (step == SC_MATRIX_NONE)
		return 0;
	if (cfg->training.trainable == SC_TRAIN_LORA)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.optimizer",
				       "training.optimizer %s steps whole matrices; with "
				       "training.trainable lora choose another",
				       name);
	if (cfg->training.offload.optimizer > SC_TIER_NONE)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.offload.optimizer",
				       "training.offload.optimizer: %s's matrix products "
				       "run on GPUs; choose another optimizer",
				       name);
	if (step == SC_MATRIX_MUON && sc_muon_sharding(res->request) != SC_MUON_NONE &&
	    cfg->parallel.sharding == SC_ZERO_NONE)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.muon_sharding",
				       "training.muon_sharding deals out what parallel.sharding "
				       "spreads, and it is none: set zero1, or muon_sharding none");
	if (step == SC_MATRIX_MUON && sc_muon_sharding(res->request) == SC_MUON_PARTS &&
	    cfg->parallel.sharding >= SC_ZERO3)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.muon_sharding",
				       "training.muon_sharding parts: where weights are sharded "
				       "every rank has a part of every matrix; choose owner");
	if (step == SC_MATRIX_KFAC &&
	    (cfg->parallel.sharding != SC_ZERO_NONE || sc_model_is_moe(&cfg->model)))
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.optimizer",
				       "training.optimizer kfac is for layers without experts that "
				       "each replica holds whole; set parallel.sharding none, or "
				       "choose another optimizer");
	return 0;
}

/* Rows of embedding tables, and layers whose matrices are unknown, or updated one by one. */
static int check_optimizer(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	enum sc_optimizer optimizer = cfg->training.optimizer;
	const struct sc_layer_row *rows = cfg->model.rows.at;
	bool known = sc_optimizer_traits_of(optimizer)->matrices == SC_MATRIX_NONE;

	for (size_t i = 0; i < cfg->model.rows.n && !res->request->software.layer_updates; i++)
		known = known || (rows[i].outputs > 0 && rows[i].inputs > 0);
	if (cfg->model.family == SC_DLRM ? optimizer <= SC_OPT_ATOMIC_SGD
					 : cfg->model.family != SC_LAYERS || known)
		return check_matrices(res);
	if (cfg->model.family == SC_LAYERS)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "training.optimizer",
			"training.optimizer %s steps whole matrices at once: give layers "
			"outputs and inputs, and a training.software without "
			"grad_sync by_layer, or choose adam, sgd or adagrad",
			sc_enum_name(sc_optimizer_names, (int)optimizer));
	return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.optimizer",
			       "training.optimizer %s is for Transformers; choose adam, sgd or "
			       "adagrad",
			       sc_enum_name(sc_optimizer_names, (int)optimizer));
}

/* The key to blame: the last one that was given. */
static const char *product_path(const struct sc_config *cfg)
{
	static const char *const paths[] = {"parallel.dp", "parallel.tp", "parallel.pp",
					    "parallel.cp"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (sc_config_origin(cfg, paths[i]))
			return paths[i];
	return "gpus";
}

static int check_product(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	int64_t replica = par->tp * par->pp * par->cp, product = replica * par->dp;
	char advice[64];

	if (product == cfg->gpus)
		return 0;
	if (cfg->gpus % replica)
		snprintf(advice, sizeof(advice), "change gpus or the split");
	else
		snprintf(advice, sizeof(advice), "dp %" PRId64 " would fit", cfg->gpus / replica);
	return sc_resolve_fail(res, SC_ECONFLICT, product_path(cfg),
			       "tp %" PRId64 " x pp %" PRId64 " x cp %" PRId64 " x dp %" PRId64
			       " = %" PRId64 ", but gpus is %" PRId64 "; %s",
			       par->tp, par->pp, par->cp, par->dp, product, cfg->gpus, advice);
}

static int check_order(const struct sc_resolver *res)
{
	static const char names[SC_N_ORDER_AXES][3] = {"tp", "cp", "ep", "dp", "pp"};
	const struct sc_parallel *par = &res->request->config.parallel;
	const int64_t size[SC_N_ORDER_AXES] = {par->tp, par->cp, par->ep, par->dp, par->pp};
	int axes[SC_N_ORDER_AXES], n_named;

	if (!sc_order_parse(par->order, axes, &n_named))
		return sc_resolve_fail(
			res, SC_EVALUE, "parallel.order",
			"parallel.order \"%.40s\": expected each of tp, cp, ep, dp, pp "
			"once, innermost first, as in tp-cp-ep-dp-pp",
			par->order);
	for (int i = n_named; i < SC_N_ORDER_AXES; i++)
		if (size[axes[i]] > 1)
			return sc_resolve_fail(
				res, SC_ECONFLICT, "parallel.order",
				"parallel.order \"%.40s\" does not say where %s stands, "
				"which is %" PRId64,
				par->order, names[axes[i]], size[axes[i]]);
	return 0;
}

static int check_tiers(const struct sc_resolver *res)
{
	const struct sc_structs *tiers = &res->request->config.cluster.tiers;
	const struct sc_net_tier *at = tiers->at;

	if (tiers->n && res->request->config.cluster.torus.dims.n)
		return sc_resolve_fail(res, SC_ECONFLICT, "cluster.tiers",
				       "cluster.tiers are of switches, and cluster.torus has none; "
				       "leave out one of them");
	for (size_t i = 1; i < tiers->n; i++)
		if (at[i].nodes <= at[i - 1].nodes)
			return sc_resolve_fail(res, SC_ECONFLICT, "cluster.tiers",
					       "cluster.tiers: a switch of %" PRId64
					       " nodes stands above one of %" PRId64
					       "; list them from the leaves up",
					       at[i].nodes, at[i - 1].nodes);
	return 0;
}

static int check_cluster(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_cluster *cl = &cfg->cluster;
	int64_t small = cl->scale_up_gpus, large = cl->gpus_per_node;

	if (small > large) {
		small = cl->gpus_per_node;
		large = cl->scale_up_gpus;
	}
	if (large % small)
		return sc_resolve_fail(res, SC_ECONFLICT, "cluster.scale_up_gpus",
				       "cluster.scale_up_gpus %" PRId64
				       " and gpus_per_node %" PRId64
				       " do not fit; one must be a multiple of the other",
				       cl->scale_up_gpus, cl->gpus_per_node);
	if (cfg->gpus <= large)
		return 0;
	if (cl->nics_per_node == 0 || !(cl->nic_gbit_s > 0))
		return sc_resolve_fail(res, SC_ECONFLICT,
				       cl->nics_per_node == 0 ? "cluster.nics_per_node"
							      : "cluster.nic_gbit_s",
				       "%" PRId64 " GPUs on nodes of %" PRId64
				       " need a network; set cluster.nics_per_node and "
				       "cluster.nic_gbit_s above 0",
				       cfg->gpus, cl->gpus_per_node);
	return 0;
}

static int check_precision(const struct sc_resolver *res)
{
	const enum sc_precision precision = res->request->config.training.precision;
	const enum sc_dtype dtype = sc_precision_dtype(precision);
	const struct sc_device *lacks = sc_kind_without(res->request, dtype);
	const bool mx = precision == SC_P_MXFP8 || precision == SC_P_MXFP4;
	struct sc_strbuf peaks = {0};
	int rc;

	for (size_t k = 0; k < sc_request_n_kinds(res->request); k++) {
		const struct sc_device *device = sc_request_device(res->request, k);

		if ((mx && !device->mx_formats) ||
		    (precision == SC_P_NVFP4 && device->cuda_capability == 0))
			lacks = device;
	}
	if (!lacks)
		return 0;
	sc_device_print_peaks(lacks, &peaks);
	rc = sc_resolve_fail(res, SC_ECONFLICT, "training.precision",
			     "training.precision: %s has no %s math; its peaks in TFLOP/s: %s",
			     lacks->id,
			     mx                        ? dtype == SC_FP8 ? "mxfp8" : "mxfp4"
			     : precision == SC_P_NVFP4 ? "nvfp4"
						       : sc_enum_name(sc_dtype_names, (int)dtype),
			     sc_strbuf_get(&peaks));
	sc_strbuf_release(&peaks);
	return rc;
}

SC_COMPARE(compare_ranks, int64_t, SC_ORDER(*a, *b));

static int check_stragglers(const struct sc_resolver *res)
{
	const struct sc_structs *list = &res->request->config.stragglers;
	const struct sc_straggler *at = list->at;
	const int64_t gpus = res->request->config.gpus;
	size_t n = 0, n_copied = 0;
	int64_t *ranks;
	int rc = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (!at[i].ranks.n)
			return sc_resolve_fail(res, SC_EVALUE, "stragglers",
					       "stragglers: entry %zu has no ranks", i + 1);
		n += at[i].ranks.n;
	}
	if (!n)
		return 0;
	ranks = sc_xrealloc(NULL, n, sizeof(*ranks));
	for (size_t i = 0; i < list->n; i++) {
		memcpy(ranks + n_copied, at[i].ranks.at, at[i].ranks.n * sizeof(*ranks));
		n_copied += at[i].ranks.n;
	}
	SC_SORT(ranks, n, compare_ranks);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (ranks[i] >= gpus)
			rc = sc_resolve_fail(res, SC_EVALUE, "stragglers",
					     "stragglers: there is no rank %" PRId64
					     "; the last is %" PRId64,
					     ranks[i], gpus - 1);
		else if (i && ranks[i] == ranks[i - 1])
			rc = sc_resolve_fail(res, SC_ECONFLICT, "stragglers",
					     "stragglers: rank %" PRId64 " is listed twice",
					     ranks[i]);
	free(ranks);
	return rc;
}

int sc_config_check(const struct sc_resolver *res)
{
	static int (*const checks[])(const struct sc_resolver *) = {
		check_product,  check_order,     check_cluster,    check_tiers,
		sc_nodes_check, check_precision, check_stragglers, check_optimizer,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
		rc = checks[i](res);
	if (rc == 0)
		rc = res->request->config.model.family == SC_LAYERS ? sc_config_check_layers(res)
		     : res->request->config.model.family == SC_DLRM
			     ? sc_config_check_dlrm(res)
			     : sc_config_check_transformer(res);
	if (rc == 0)
		warn_all(res->request);
	return rc;
}
