/* The DLRM part of a request: embedding tables from a list or a CSV file, their defaults, and
 * whether layers, tables and interaction fit together. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/intern.h"
#include "base/num.h"
#include "core/config/config_priv.h"
#include "core/embedding/reuse.h"
#include "core/embedding/table_csv.h"

int sc_config_load_tables(struct sc_config *config, const char *path, struct sc_arena *arena,
			  struct sc_err *err)
{
	struct sc_table_list list;
	struct sc_csv csv;
	int rc = sc_csv_load(path, arena, &csv, err);

	if (rc == 0)
		rc = sc_tables_read_csv(&csv, arena, &list, err);
	if (rc == 0)
		config->model.tables = (struct sc_structs){.at = list.at, .n = list.n};
	return rc;
}

int sc_model_fill_tables(struct sc_model *model, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_reuse usual = {0};
	struct sc_table *tables = model->tables.at;
	int rc = model->tables.n ? sc_reuse_resolve(&usual, NULL, arena, err) : 0;

	for (size_t i = 0; rc == 0 && i < model->tables.n; i++) {
		/* Zero is what a key that was not given has. */
		if (!tables[i].name)
			tables[i].name = sc_arena_printf(arena, "table_%zu", i);
		if (!tables[i].count)
			tables[i].count = 1;
		if (!tables[i].features)
			tables[i].features = 1;
		if (!(tables[i].pooling > 0))
			tables[i].pooling = 1;
		rc = sc_reuse_resolve(&tables[i].reuse, &usual, arena, err);
	}
	return rc;
}

double sc_model_n_tables(const struct sc_model *model)
{
	const struct sc_table *tables = model->tables.at;
	double n = 0;

	for (size_t i = 0; i < model->tables.n; i++)
		n += (double)tables[i].count;
	return n;
}

double sc_model_n_elements(const struct sc_model *model)
{
	const struct sc_table *tables = model->tables.at;
	double n = 0;

	for (size_t i = 0; i < model->tables.n; i++)
		n += (double)tables[i].count * (double)tables[i].rows * (double)tables[i].dim;
	return n;
}

/* Every rank works on all of its samples at once, and tables are placed on whole hosts. */
static int check_given(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_model *model = &cfg->model;
	const int64_t node = cfg->cluster.gpus_per_node;

	if (res->request->n_micro_batches > 1)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "training.micro_batch",
			"training.micro_batch %" PRId64
			": a DLRM's step takes all samples of a rank at once; remove it",
			cfg->training.micro_batch);
	if (cfg->gpus > node && cfg->gpus % node)
		return sc_resolve_fail(res, SC_ECONFLICT, "gpus",
				       "gpus %" PRId64 " are no whole nodes of %" PRId64
				       "; a DLRM's tables are placed on whole nodes",
				       cfg->gpus, node);
	if (!model->tables.n)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.tables is not given; list the embedding tables, as in "
			"`tables: [{rows: 1000000, dim: 128, pooling: 1, count: 26}]`");
	if (!model->top_mlp.n)
		return sc_resolve_fail(res, SC_EVALUE, "model",
				       "model.top_mlp is not given; write its widths, as in "
				       "[1024, 512, 1]");
	if (model->dense_features < 1 && model->bottom_mlp.n)
		return sc_resolve_fail(res, SC_EVALUE, "model",
				       "model.dense_features is not given; model.bottom_mlp "
				       "needs an input");
	if (sc_model_n_tables(model) > SC_MAX_TABLES)
		return sc_resolve_fail(res, SC_ELIMIT, "model.tables",
				       "model.tables holds %.0f tables; at most %d",
				       sc_model_n_tables(model), SC_MAX_TABLES);
	return 0;
}

/* Plans know tables by name, and copies by name_0, name_1 ... */
static int check_names(const struct sc_resolver *res)
{
	const struct sc_table *tables = res->request->config.model.tables.at;
	size_t n = res->request->config.model.tables.n;
	const bool is_csv = sc_config_origin(&res->request->config, "model.tables_csv");
	const char *at = is_csv ? "model.tables_csv" : "model.tables", *twice = NULL;
	struct sc_intern names = {0};

	for (size_t i = 0; i < n && !twice; i++)
		if (sc_intern_add(&names, tables[i].name) != i)
			twice = tables[i].name;
	for (size_t i = 0; i < n && !twice; i++) {
		const char *name = tables[i].name, *bar = strrchr(name, '_');
		int64_t number;
		uint32_t of;

		if (!bar || (bar[1] == '0' && bar[2]) || bar[1 + strspn(bar + 1, "0123456789")] ||
		    !sc_parse_int(bar + 1, &number))
			continue;
		of = sc_intern_add_n(&names, name, (size_t)(bar - name));
		if (of < n && tables[of].count > 1 && number < tables[of].count)
			twice = name;
	}
	sc_intern_release(&names);
	if (!twice)
		return 0;
	return sc_resolve_fail(res, SC_ECONFLICT, at, "%s: two tables are named \"%.64s\"", at,
			       twice);
}

/* A sequence in place of an interaction. What is not given follows. */
static int check_hstu(const struct sc_resolver *res)
{
	struct sc_model *model = &res->request->config.model;
	struct sc_hstu *hstu = &model->hstu;
	double events = 0, own = 0;
	const struct sc_table *tables = model->tables.at;
	const char *const beside[] = {"model.interaction", "model.bottom_mlp",
				      "model.dense_features"};

	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
		if (sc_config_origin(&res->request->config, beside[i]))
			return sc_resolve_fail(
				res, SC_EUNSUPPORTED, beside[i],
				"%s beside model.hstu: its sequence stands in place of "
				"an interaction of features; remove one of them",
				beside[i]);
	if (hstu->hidden == SC_NOT_GIVEN)
		hstu->hidden = tables[0].dim;
	if (hstu->head_dim == SC_NOT_GIVEN) {
		if (hstu->hidden % hstu->heads)
			return sc_resolve_fail(res, SC_ECONFLICT, "model.hstu.heads",
					       "model.hstu.hidden %" PRId64
					       " is no multiple of its heads %" PRId64
					       "; give head_dim",
					       hstu->hidden, hstu->heads);
		hstu->head_dim = hstu->hidden / hstu->heads;
	}
	if (!(hstu->tokens > 0))
		return sc_resolve_fail(res, SC_EVALUE, "model.hstu",
				       "model.hstu.tokens is not given; it is the mean length of a "
				       "sample's sequence");
	for (size_t i = 0; i < model->tables.n; i++)
		if (tables[i].sequence)
			events = fmax(events, tables[i].pooling);
		else
			own += (double)(tables[i].count * tables[i].features);
	if (!(events > 0))
		return sc_resolve_fail(
			res, SC_ECONFLICT, "model.tables",
			"model.hstu needs a table whose lookups are not pooled (sequence: true)");
	if (hstu->tokens < events - 1 || hstu->tokens > events + own + 1) /* the candidate */
		sc_warn(&res->request->warnings,
			"model.hstu.tokens is %g, by which layers go, but tables of sequences look up %g "
			"vectors of a sample beside %g of its own, by which lookups and exchanges go",
			hstu->tokens, events, own);
	return 0;
}

/* Dot products need vectors of one width. */
static int check_interaction(const struct sc_resolver *res)
{
	const struct sc_model *model = &res->request->config.model;
	const struct sc_table *tables = model->tables.at;
	int64_t dim = tables[0].dim;

	if (model->hstu.layers > 0)
		return check_hstu(res);
	if (model->hstu.tokens > 0)
		return sc_resolve_fail(res, SC_EVALUE, "model.hstu",
				       "model.hstu.layers is not given; write how many, as 3");
	if (model->interaction != SC_INTERACT_DCNV2 && model->cross_layers != SC_NOT_GIVEN)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.cross_layers",
				       "model.cross_layers needs model.interaction dcnv2");
	if (model->interaction == SC_INTERACT_DCNV2 && model->cross_layers == SC_NOT_GIVEN)
		return sc_resolve_fail(res, SC_EVALUE, "model.interaction",
				       "model.interaction dcnv2: model.cross_layers is not given; "
				       "write how many, as 3");
	if (model->interaction != SC_INTERACT_CAT && model->interact_stride > 1)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.interact_stride",
				       "model.interact_stride needs model.interaction cat");
	if (model->interaction != SC_INTERACT_DOT)
		return 0;
	for (size_t i = 1; i < model->tables.n; i++)
		if (tables[i].dim != dim)
			return sc_resolve_fail(res, SC_ECONFLICT, "model.tables",
					       "model.interaction dot: table %.40s has dim %" PRId64
					       ", table %.40s %" PRId64 "; all must be alike",
					       tables[0].name, dim, tables[i].name, tables[i].dim);
	if (model->bottom_mlp.n && model->bottom_mlp.at[model->bottom_mlp.n - 1] != dim)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.bottom_mlp",
				       "model.interaction dot: model.bottom_mlp ends in %" PRId64
				       ", tables have dim %" PRId64 "; they must be alike",
				       model->bottom_mlp.at[model->bottom_mlp.n - 1], dim);
	return 0;
}

int sc_config_check_data_parallel(const struct sc_resolver *res, const char *why)
{
	const struct sc_parallel *par = &res->request->config.parallel;
	const struct {
		const char *path;
		int64_t value;
	} axes[] = {
		{"parallel.tp", par->tp},
		{"parallel.pp", par->pp},
		{"parallel.cp", par->cp},
		{"parallel.ep", par->ep},
	};

	for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++)
		if (axes[i].value > 1)
			return sc_resolve_fail(res, SC_EUNSUPPORTED, axes[i].path,
					       "%s %" PRId64 ": %s; remove it", axes[i].path,
					       axes[i].value, why);
	return 0;
}

/* A budget above the memory of the largest GPU of a mixed cluster is one that none has. */
static int check_budget(const struct sc_resolver *res)
{
	const struct sc_request *req = res->request;
	const struct sc_device *largest = &req->device;

	for (size_t k = 1; k < sc_request_n_kinds(req); k++)
		if (sc_request_device(req, k)->hbm_gib > largest->hbm_gib)
			largest = sc_request_device(req, k);
	if (req->config.sharding.hbm_gib <= largest->hbm_gib)
		return 0;
	return sc_resolve_fail(res, SC_ECONFLICT, "sharding.hbm_gib",
			       "sharding.hbm_gib %g is more than the %g GiB of %.40s",
			       req->config.sharding.hbm_gib, largest->hbm_gib, largest->id);
}

int sc_config_check_dlrm(const struct sc_resolver *res)
{
	int rc = sc_config_check_data_parallel(
		res, "a DLRM is data parallel, its tables are placed by the section sharding");

	if (rc == 0)
		rc = check_given(res);
	if (rc == 0)
		rc = check_names(res);
	if (rc == 0)
		rc = check_interaction(res);
	if (rc == 0)
		rc = check_budget(res);
	return rc;
}

/* Keys of `sharding` that planners read, and others pass over; stepcast's tries what others make
 * too. Budgets are also those of a search, whatever planner the software has. */
static void warn_planner(struct sc_request *req)
{
	enum {
		HUGECTR = 1 << SC_PLANNER_HUGECTR,
		TORCHREC = 1 << SC_PLANNER_TORCHREC,
		GREEDY = 1 << SC_PLANNER_MEMORY_BALANCED | 1 << SC_PLANNER_LOOKUPS,
		ALL = 1 << SC_PLANNER_NONE | 1 << SC_PLANNER_STEPCAST
	};
	const struct sc_sharding_plan *s = &req->config.sharding;
	bool is_given = sc_config_origin(&req->config, "sharding.planner") != NULL;
	const struct {
		const char *key;
		double value;
		unsigned readers;
		bool is_budget;
	} keys[] = {
		{"bw_ratio", s->bw_ratio, HUGECTR | ALL, false},
		{"dp_threshold_gb", s->dp_threshold_gb, HUGECTR | ALL, false},
		{"column_slice_elements", s->column_slice_elements, GREEDY | ALL, false},
		{"hbm_gib", s->hbm_gib, HUGECTR | TORCHREC | ALL, true},
		{"hbm_reserve_frac", s->hbm_reserve_frac, HUGECTR | TORCHREC | ALL, true},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (keys[i].value < 0 || (keys[i].is_budget && (s->plan || !is_given)))
			continue;
		if (s->plan)
			sc_warn(&req->warnings, "sharding.%s has no effect: sharding.plan is given",
				keys[i].key);
		else if (!(keys[i].readers >> s->planner & 1))
			sc_warn(&req->warnings,
				"sharding.%s has no effect on the plan of planner %s", keys[i].key,
				sc_enum_name(sc_planner_names, (int)s->planner));
	}
	if (s->hbm_gib > 0 && s->hbm_reserve_frac >= 0)
		sc_warn(&req->warnings,
			"sharding.hbm_reserve_frac has no effect: sharding.hbm_gib is given");
}

void sc_config_warn_dlrm(struct sc_request *req)
{
	static const char why[] = "a DLRM's dense part is replicated, and keeps its activations";
	const struct sc_config *cfg = &req->config;

	if (cfg->parallel.sharding != SC_ZERO_NONE)
		sc_warn(&req->warnings, "parallel.sharding has no effect: %s", why);
	if (cfg->training.recompute != SC_RECOMPUTE_NONE)
		sc_warn(&req->warnings, "training.recompute has no effect: %s", why);
	if (cfg->training.trainable == SC_TRAIN_LORA)
		sc_warn(&req->warnings,
			"training.trainable has no effect: all of a DLRM is trained");
	if (sc_config_origin(cfg, "training.attention"))
		sc_warn(&req->warnings, "training.attention has no effect: a DLRM has none");
	warn_planner(req);
}
