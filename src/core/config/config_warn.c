/* What a checked request says without effect, or against what frameworks do: warnings. */
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
	};

	for (; table->key; table++) {
		const unsigned char *at = place + table->offset;

		if (table->type == SC_F_STRUCT && !*section)
			warn_needs(req, table->sub, table->key, at);
		for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
			if ((table->needs & needs[i].bit) && !needs[i].has &&
			    !sc_field_is_absent(table, at))
				sc_warn(&req->warnings, "%s.%s has no effect%s", section,
					table->key, needs[i].why);
	}
}

static void warn_parallel(struct sc_request *req)
{
	const struct sc_parallel *par = &req->config.parallel;

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
}

static void warn_boards(struct sc_request *req)
{
	for (size_t i = 0; i < sc_request_n_kinds(req); i++) {
		const struct sc_device *device = sc_request_device(req, i);

		if (device->rank_has)
			sc_warn(&req->warnings,
				"a rank has all of a %s here, but software sees it as several GPUs: "
				"write %s for the GPU, and count those",
				device->id, device->rank_has);
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

int sc_config_warn(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;

	warn_boards(req);
	warn_units(req);
	warn_needs(req, sc_config_fields, "", (const unsigned char *)&req->config);
	if (req->config.model.family == SC_DLRM)
		sc_config_warn_dlrm(req);
	else if (req->config.model.family == SC_LAYERS)
		sc_config_warn_layers(req);
	else
		warn_parallel(req);
	return 0;
}
