/* Times a collective at each size on its own; an algorithm file is walked once a size. */
#include "study/collective/collective_sizes.h"

#include <math.h>

#include "base/num.h"
#include "base/stats.h"
#include "base/units.h"
#include "predict/engine/simulate.h"

/* Collectives run between the same GPUs, so they share these GPUs' NICs, not all the node's. */
static void add_shape(struct sc_graph *graph, const struct sc_fabric *fabric,
		      const struct sc_span *span, const struct sc_collective_shape *shape)
{
	struct sc_cost cost = sc_collective_cost(fabric, shape, span, NULL);
	uint32_t lane = sc_graph_add_lane(graph, 0, SC_LANE_COMM), id;

	cost.demand[SC_RES_NIC] = sc_collective_nic_load(fabric, shape->kind, span, &cost);
	id = sc_graph_add_cost(graph, &cost);
	sc_graph_add_node(graph, SC_NODE_KERNEL, lane, (struct sc_node_use){id, SC_NONE});
}

/* The graph is one rank, with a lane for each collective. */
int sc_collective_together_us(const struct sc_fabric *fabric, const struct sc_span *span,
			      const struct sc_collective_shape *shape,
			      const struct sc_collective_shape *others, size_t n, double *out,
			      struct sc_err *err)
{
	const struct sc_class rank = {.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1};
	struct sc_simulator *sim = sc_simulator_create();
	struct sc_timeline timeline = {0};
	struct sc_graph graph;
	int rc;

	sc_graph_init(&graph);
	sc_graph_add_class(&graph, rank);
	add_shape(&graph, fabric, span, shape);
	for (size_t i = 0; i < n; i++)
		add_shape(&graph, fabric, span, &others[i]);
	sc_graph_seal(&graph);
	rc = sc_simulate(sim, &graph, NULL, &timeline, err);
	if (rc == 0)
		*out = timeline.end_us[0];
	sc_timeline_release(&timeline);
	sc_graph_release(&graph);
	sc_simulator_destroy(sim);
	return rc;
}

static const char *limit_of(const struct sc_cost *cost, const struct sc_span *span)
{
	if (cost->latency_us > cost->work_us)
		return "latency";
	return span->n_nodes > 1 ? "network" : "link";
}

static void predict_size(const struct sc_collective_sizes_opts *opts,
			 struct sc_collective_point *point)
{
	struct sc_collective_shape shape = {
		.kind = opts->kind, .bytes = point->bytes, .dtype = SC_FP32};
	struct sc_collective_choice choice;
	struct sc_cost cost = sc_collective_cost(opts->fabric, &shape, &opts->span, &choice);
	int n = opts->span.n_ranks;

	point->time_us = sc_cost_alone_us(&cost);
	point->algorithm = sc_algo_names[choice.algo];
	point->protocol = sc_msccl_proto_names[choice.proto];
	point->channels = choice.channels;
	point->limit = limit_of(&cost, &opts->span);
	if (point->time_us > 0)
		point->algbw_gbps = point->bytes * sc_bytes_us(1, 1) / point->time_us;
	/* busbw / algbw is 2(n-1)/n for an all-reduce, (n-1)/n where each rank keeps its part, else
	 * 1 (nccl-tests). */
	point->busbw_gbps = point->algbw_gbps;
	if (n > 1 && opts->kind != SC_BROADCAST && opts->kind != SC_REDUCE &&
	    opts->kind != SC_SEND_RECV)
		point->busbw_gbps *= (opts->kind == SC_ALL_REDUCE ? 2 : 1) * (n - 1.0) / n;
}

/* ---- measured ---- */

/* The median time of the rows of this size (within 0.1 %). */
static int find_measured(const struct sc_csv *table, double bytes, struct sc_arena *arena,
			 double *out, struct sc_err *err)
{
	int at_bytes = sc_csv_column(table, "bytes"), at_time = sc_csv_column(table, "time_us");
	double *times = sc_arena_alloc(arena, (table->n_rows + 1) * sizeof(*times));
	size_t n = 0;

	*out = NAN;
	if (at_bytes < 0 || at_time < 0)
		return sc_err_at(err, SC_EFORMAT, table->file, 1, 0,
				 "measured times need the columns bytes and time_us");
	for (size_t i = 0; i < table->n_rows; i++) {
		double size, us;

		if (!sc_parse_double(sc_csv_cell(table, i, (size_t)at_bytes), &size) ||
		    !sc_parse_double(sc_csv_cell(table, i, (size_t)at_time), &us) || !(size > 0) ||
		    !(us > 0))
			return sc_err_at(err, SC_EVALUE, table->file, table->line[i], 0,
					 "bytes and time_us: expected numbers above 0");
		if (fabs(size / bytes - 1) < 1e-3)
			times[n++] = us;
	}
	if (n)
		*out = sc_median_sorting(times, n);
	return 0;
}

static void score_sizes(struct sc_collective_sizes *s, struct sc_arena *arena)
{
	double *predicted = sc_arena_alloc(arena, (s->n + 1) * sizeof(*predicted));
	double *measured = sc_arena_alloc(arena, (s->n + 1) * sizeof(*measured));
	struct sc_accuracy accuracy;

	for (size_t i = 0; i < s->n; i++) {
		const struct sc_collective_point *p = &s->points[i];

		if (isnan(p->measured_us) || (p->file_limit && isnan(p->file_us)))
			continue;
		predicted[s->n_measured] = p->file_limit ? p->file_us : p->time_us;
		measured[s->n_measured++] = p->measured_us;
	}
	accuracy = sc_accuracy_compute(predicted, measured, s->n_measured, arena);
	s->median_ape_pct = accuracy.median_ape_pct;
	s->p90_ape_pct = accuracy.p90_ape_pct;
}

/* ---- the other algorithm ---- */

const char *sc_collective_other(const struct sc_collective_sizes_opts *opts)
{
	if (opts->asked)
		return sc_algo_names[opts->asked - 1];
	return !opts->file ? NULL : *opts->file->name ? opts->file->name : "the file";
}

static int check_file(const struct sc_collective_sizes_opts *opts, struct sc_err *err)
{
	static const enum sc_collective of[] = {SC_ALL_REDUCE, SC_ALL_GATHER, SC_REDUCE_SCATTER,
						SC_ALL_TO_ALL};
	const struct sc_msccl *file = opts->file;

	if (opts->asked) {
		enum sc_algo algo = (enum sc_algo)(opts->asked - 1);
		const char *why = sc_algo_unfit(opts->fabric, opts->kind, &opts->span, algo);

		return !why ? 0
			    : sc_err_set(err, SC_ECONFLICT, "--algorithm %s: %s",
					 sc_algo_names[algo], why);
	}
	if (!file)
		return 0;
	if (file->coll < SC_MSCCL_NEXT && of[file->coll] != opts->kind)
		return sc_err_at(err, SC_ECONFLICT, file->file, 0, 0,
				 "the algorithm is of %s, not of %s", file->coll_name,
				 sc_collective_names[opts->kind]);
	if (file->n_gpus != opts->span.n_ranks)
		return sc_err_at(err, SC_ECONFLICT, file->file, 0, 0,
				 "the algorithm is of %d GPUs, the collective of %d ranks; see "
				 "--ranks and --nodes",
				 file->n_gpus, opts->span.n_ranks);
	if (sc_span_is_oversubscribed(opts->fabric, &opts->span))
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "an algorithm's walk has no oversubscribed uplinks: leave out "
				  "cluster.tiers or take fewer nodes");
	return 0;
}

static int add_other(const struct sc_collective_sizes_opts *opts, struct sc_collective_point *point,
		     struct sc_collective_sizes *out, struct sc_err *err)
{
	const struct sc_msccl_place place = {opts->fabric, opts->span.max_ranks_per_node};
	const struct sc_collective_shape shape = {opts->kind, point->bytes, SC_FP32};
	struct sc_fabric fabric = *opts->fabric;
	struct sc_msccl_time time;
	struct sc_cost cost;
	int rc = 0;

	fabric.asked[opts->kind] = opts->asked;
	fabric.files = NULL;
	if (opts->asked) {
		cost = sc_collective_cost(&fabric, &shape, &opts->span, NULL);
		time = (struct sc_msccl_time){sc_cost_alone_us(&cost),
					      limit_of(&cost, &opts->span)};
	} else {
		rc = sc_msccl_walk(opts->file, &place, point->bytes, &time, err);
	}
	if (rc)
		return rc;
	point->file_limit = time.limit;
	if (isinf(time.total_us))
		return 0;
	point->file_us = time.total_us;
	out->n_wins += point->file_us < point->time_us;
	if (point->time_us / point->file_us > out->best_speedup) {
		out->best_speedup = point->time_us / point->file_us;
		out->best_bytes = point->bytes;
	}
	return 0;
}

int sc_collective_sizes_run(const struct sc_collective_sizes_opts *opts, struct sc_arena *arena,
			    struct sc_collective_sizes *out, struct sc_err *err)
{
	struct sc_collective_sizes sizes = {.opts = opts, .n = opts->n};
	int rc = check_file(opts, err);

	sizes.points = sc_arena_calloc(arena, opts->n, sizeof(*sizes.points));
	for (size_t i = 0; i < opts->n && rc == 0; i++) {
		struct sc_collective_point *point = &sizes.points[i];

		*point = (struct sc_collective_point){.bytes = opts->bytes[i],
						      .measured_us = NAN,
						      .file_us = NAN,
						      .together_us = NAN};
		predict_size(opts, point);
		if (opts->measured)
			rc = find_measured(opts->measured, point->bytes, arena, &point->measured_us,
					   err);
		if (rc == 0 && sc_collective_other(opts))
			rc = add_other(opts, point, &sizes, err);
	}
	for (size_t i = 0; i < sizes.n && rc == 0 && opts->n_others; i++) {
		const struct sc_collective_shape shape = {
			.kind = opts->kind, .bytes = opts->bytes[i], .dtype = SC_FP32};

		rc = sc_collective_together_us(opts->fabric, &opts->span, &shape, opts->others,
					       opts->n_others, &sizes.points[i].together_us, err);
	}
	if (rc)
		return rc;
	score_sizes(&sizes, arena);
	*out = sizes;
	return 0;
}
