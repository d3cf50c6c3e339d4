/* See the header. */
#include "study/shard/shard_objective.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_iteration.h"

#define BYTES_MS_PER_GBPS (SC_BYTES_US_PER_GBPS * SC_US_PER_MS)

const char *const sc_objective_names[] = {
	[SC_OBJECTIVE_ITERATION] = "iteration",
	[SC_OBJECTIVE_TORCHREC] = "torchrec",
	[SC_OBJECTIVE_HUGECTR] = "hugectr",
	NULL,
};

/* Each has tens of options: more take minutes and gigabytes. */
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

uint32_t sc_shard_ranks_per_host(const struct sc_request *request)
{
	return (uint32_t)fmin((double)request->config.gpus,
			      (double)request->config.cluster.gpus_per_node);
}

static enum sc_optimizer_state optimizer_state(const struct sc_request *request)
{
	switch (request->config.training.optimizer) {
	case SC_OPT_ADAM:
		return SC_STATE_TWICE;
	case SC_OPT_ADAGRAD:
	case SC_OPT_ROWWISE_ADAGRAD:
		return SC_STATE_ROW;
	default:
		return SC_STATE_NONE;
	}
}

/* The budgets that the request gives; others stay. */
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

void sc_torchrec_topology_of(const struct sc_request *request, bool device_constants,
			     struct sc_torchrec_topology *out)
{
	const struct sc_device *device = &request->device;
	const struct sc_cluster *cluster = &request->config.cluster;

	sc_torchrec_topology_init(out);
	out->world = (uint32_t)request->config.gpus;
	out->ranks_per_host = sc_shard_ranks_per_host(request);
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
		      struct sc_arena *arena, struct sc_err *err)
{
	struct sc_hugectr_opts hugectr;

	*objective = (struct sc_objective){
		.kind = kind,
		.unit = kind == SC_OBJECTIVE_HUGECTR ? "hotness" : "ms",
		.request = request,
		.device_constants = device_constants,
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
		return sc_torchrec_problem(&objective->topology, &objective->tables, arena,
					   &objective->problem, err);
	case SC_OBJECTIVE_HUGECTR:
		sc_hugectr_opts_of(request, &hugectr);
		return sc_hugectr_problem(&hugectr, &objective->tables, &objective->problem, err);
	default:
		return sc_iteration_problem(request, arena, &objective->problem, err);
	}
}

void sc_objective_release(struct sc_objective *objective)
{
	sc_shard_problem_release(&objective->problem);
}
