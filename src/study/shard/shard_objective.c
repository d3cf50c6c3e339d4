/* Makes the problem of an objective from a request: its tables, its costs, its budgets. */
#include "study/shard/shard_objective.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_iteration.h"

/* HugeCTR's costs (samples/dlrm/sharding/planner.py of NVIDIA-Merlin/HugeCTR) are a problem for the
 * solver here, beside HugeCTR's own search in shard_hugectr.c. They are flat: nodes do not matter
 * to them. */

#define BYTES_PER_GB 1e9            /* as its threshold counts them */
static const double WORK_RATIO = 4; /* mem_comm_work_ratio */
/* --memory_cap_for_embedding of samples/dlrm/train.py; plans that MLPerf's logs print keep to it.
 */
static const double CAP_BYTES = 60e9;

struct maker {
	const struct sc_hugectr_opts *opts;
	const struct sc_table *table; /* the one at hand */
	struct sc_shard_problem *out;
};

/* HugeCTR's planner runs for a request with the ratio and the threshold of MLPerf's recipes: one
 * pair up to two nodes, another for more. */
void sc_hugectr_opts_of(const struct sc_request *request, struct sc_hugectr_opts *out)
{
	const struct sc_sharding_plan *given = &request->config.sharding;
	double gpus = (double)request->config.gpus;
	double per_node = sc_dlrm_ranks_together(request);
	bool several = gpus > 2 * per_node;
	enum sc_optimizer optimizer = request->config.training.optimizer;

	*out = (struct sc_hugectr_opts){
		.hierarchical = several,
		.bw_ratio = given->bw_ratio > 0 ? given->bw_ratio
			    : several           ? 67
						: 7,
		.dp_threshold_gb = given->dp_threshold_gb >= 0 ? given->dp_threshold_gb
				   : several                   ? 0.0125
							       : 0.008,
		.gpus = (uint32_t)gpus,
		.gpus_per_node = (uint32_t)per_node,
		.optimizer_factor = optimizer == SC_OPT_ADAGRAD ? 2
				    : optimizer == SC_OPT_ADAM  ? 3
								: 1,
		.hbm_bytes =
			given->hbm_gib > 0
				? given->hbm_gib * SC_BYTES_PER_GIB
				: fmin(CAP_BYTES,
				       /* 0 would mean no limit */
				       fmax(1, sc_shard_table_budget(request, &request->device))),
	};
}

static void cost_shard(const void *ctx, const struct sc_option *option,
		       struct sc_option_shard *shard)
{
	const struct maker *m = ctx;
	double n = option->n_shards;

	if (option->type != SC_DATA_PARALLEL)
		shard->cost = (double)m->table->features * m->table->pooling / n +
			      m->opts->bw_ratio / WORK_RATIO;
	shard->hbm_bytes = sc_table_bytes(m->table) * m->opts->optimizer_factor / n;
}

static void add_option(const struct maker *m, enum sc_shard_type type, enum sc_spread spread,
		       uint32_t n)
{
	const struct sc_option_maker maker = {m->out, cost_shard, m};
	const struct sc_option option = {
		.table = (uint32_t)(m->table - m->out->tables), .type = type, .spread = spread};

	sc_option_add(&maker, &option, n, m->table->dim);
}

static void add_hugectr_table(const struct maker *m)
{
	uint32_t world = m->opts->gpus;
	double gb = sc_table_bytes(m->table) * m->opts->optimizer_factor / BYTES_PER_GB;

	SC_VEC_PUSH(&m->out->first_option, (uint32_t)m->out->options.n);
	if (world > 1 && gb < m->opts->dp_threshold_gb)
		add_option(m, SC_DATA_PARALLEL, SC_SPREAD_UNIFORM, 1);
	add_option(m, SC_TABLE_WISE, SC_SPREAD_FREE, 1);
	for (uint32_t n = 2; n < world && (int64_t)n <= m->table->rows; n *= 2) {
		add_option(m, SC_ROW_WISE, SC_SPREAD_FREE, n);
		if (n <= m->opts->gpus_per_node)
			add_option(m, SC_TABLE_ROW_WISE, SC_SPREAD_ON_HOST, n);
	}
	if (world > 1 && (int64_t)world <= m->table->rows)
		add_option(m, SC_ROW_WISE, SC_SPREAD_UNIFORM, world);
}

enum { MAX_SHARDS = 1 << 24 }; /* 1.2 GB */

/* Makes a problem of HugeCTR's costs: a table is replicated (if small), whole, or split by rows
 * into 2, 4 ... shards or one on every GPU; a shard costs hotness / splits + bw_ratio / 4. */
static int hugectr_problem(const struct sc_hugectr_opts *opts, const struct sc_table_list *tables,
			   struct sc_shard_problem *out, struct sc_err *err)
{
	struct maker m = {.opts = opts, .table = tables->at, .out = out};
	double most = (double)tables->n * (1 + 4.0 * opts->gpus + 2.0 * opts->gpus_per_node);

	if (most > MAX_SHARDS)
		return sc_err_set(
			err, SC_ELIMIT,
			"%zu tables on %u ranks have up to %.0f shards to choose from; at "
			"most %d are handled",
			tables->n, opts->gpus, most, MAX_SHARDS);
	memset(out, 0, sizeof(*out));
	out->n_tables = tables->n;
	out->tables = tables->at;
	out->world = opts->gpus;
	out->ranks_per_host = opts->gpus_per_node;
	out->hbm_bytes = opts->hbm_bytes;
	for (; m.table < tables->at + tables->n; m.table++)
		add_hugectr_table(&m);
	SC_VEC_PUSH(&out->first_option, (uint32_t)out->options.n);
	return 0;
}

#define BYTES_MS_PER_GBPS (SC_BYTES_US_PER_GBPS * SC_US_PER_MS)

const char *const sc_objective_names[] = {
	[SC_OBJECTIVE_ITERATION] = "iteration",
	[SC_OBJECTIVE_TORCHREC] = "torchrec",
	[SC_OBJECTIVE_HUGECTR] = "hugectr",
	NULL,
};

/* Each table has tens of options: more tables take minutes and gigabytes. */
enum { MAX_TABLES = 1 << 18 };

int sc_shard_check_size(const struct sc_model *model, struct sc_err *err)
{
	double n = sc_model_n_tables(model);

	if (n <= MAX_TABLES)
		return 0;
	return sc_err_set(err, SC_ELIMIT,
			  "plans of %.0f tables cannot be ranked; at most %d; give a sharding.plan",
			  n, MAX_TABLES);
}

static enum sc_optimizer_state optimizer_state(const struct sc_request *request)
{
	switch (request->config.training.optimizer) {
	case SC_OPT_ADAM:
		return SC_STATE_TWICE;
	case SC_OPT_ADAGRAD:
		return SC_STATE_SAME;
	case SC_OPT_ROWWISE_ADAGRAD:
		return SC_STATE_ROW;
	default:
		return SC_STATE_NONE;
	}
}

/* Sets the budgets that the request gives; others stay. */
static void set_budgets(const struct sc_request *request, struct sc_torchrec_topology *topology)
{
	const struct sc_sharding_plan *given = &request->config.sharding;
	const struct sc_cluster *cluster = &request->config.cluster;
	double of_node = SC_BYTES_PER_GIB / (double)topology->ranks_per_host;

	if (given->hbm_gib > 0) {
		topology->hbm_cap_bytes = given->hbm_gib * SC_BYTES_PER_GIB;
		topology->reserved_frac = 0;
	} else if (given->hbm_reserve_frac >= 0) {
		topology->hbm_cap_bytes = request->device.hbm_gib * SC_BYTES_PER_GIB;
		topology->reserved_frac = given->hbm_reserve_frac;
	}
	topology->ddr_cap_bytes = cluster->host_memory_gib * of_node;
	topology->ssd = cluster->ssd_gib > 0;
	if (cluster->ssd_gib >= 0)
		topology->ssd_cap_bytes = cluster->ssd_gib * of_node;
}

/* TorchRec's planner runs for a request with its own constants, but for what the GPU holds; on
 * request it has the GPU's bandwidths, too. */
void sc_torchrec_topology_of(const struct sc_request *request, bool device_constants,
			     struct sc_torchrec_topology *out)
{
	const struct sc_device *device = &request->device;
	const struct sc_cluster *cluster = &request->config.cluster;

	sc_torchrec_topology_init(out);
	out->world = (uint32_t)request->config.gpus;
	out->ranks_per_host =
		(uint32_t)fmin((double)request->config.gpus, (double)cluster->gpus_per_node);
	out->batch_per_rank =
		(double)request->config.training.global_batch / (double)request->config.gpus;
	out->hbm_cap_bytes = device->hbm_gib * SC_BYTES_PER_GIB;
	out->optimizer = optimizer_state(request);
	set_budgets(request, out);
	if (!device_constants)
		return;
	out->hbm_bw = device->hbm_gbps * BYTES_MS_PER_GBPS;
	if (cluster->link_gbps > 0)
		out->intra_bw = cluster->link_gbps * BYTES_MS_PER_GBPS;
	else if (device->nvlink_links > 0)
		out->intra_bw =
			(double)device->nvlink_links * device->nvlink_link_gbps * BYTES_MS_PER_GBPS;
	else
		out->intra_bw = device->pcie_gbps * BYTES_MS_PER_GBPS;
	if (device->pcie_gbps > 0)
		out->hbm_ddr_bw = device->pcie_gbps * BYTES_MS_PER_GBPS;
	if (cluster->nics_per_node > 0 && cluster->nic_gbit_s > 0)
		out->inter_bw = sc_gbit_to_gbps(cluster->nic_gbit_s) *
				(double)cluster->nics_per_node / (double)out->ranks_per_host *
				BYTES_MS_PER_GBPS;
}

int sc_objective_init(struct sc_objective *objective, enum sc_objective_kind kind,
		      bool device_constants, const struct sc_request *request,
		      const struct sc_search_watch *watch, struct sc_arena *arena,
		      struct sc_err *err)
{
	struct sc_hugectr_opts hugectr;
	int rc;

	*objective = (struct sc_objective){
		.kind = kind,
		.unit = kind == SC_OBJECTIVE_HUGECTR ? "hotness" : "ms",
		.request = request,
		.device_constants = device_constants,
		.problem.watch = watch,
		.arena = arena,
	};
	if (request->config.model.family != SC_DLRM)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "sharding is of embedding tables; the model's family is %s",
				  sc_family_name(request->config.model.family));
	sc_dlrm_tables(request, arena, &objective->tables);
	sc_torchrec_topology_of(request, device_constants, &objective->topology);
	switch (kind) {
	case SC_OBJECTIVE_TORCHREC:
		rc = sc_torchrec_problem(&objective->topology, &objective->tables, arena,
					 &objective->problem, err);
		break;
	case SC_OBJECTIVE_HUGECTR:
		sc_hugectr_opts_of(request, &hugectr);
		rc = hugectr_problem(&hugectr, &objective->tables, &objective->problem, err);
		break;
	default:
		rc = sc_iteration_problem(request, arena, &objective->problem, err);
	}
	objective->problem.watch = watch;
	return rc;
}
