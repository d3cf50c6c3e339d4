/* Measures how computation and communication slowed each other in a recording, beside what the
 * model says. Each pair is predicted from its time alone: for as long as the other ran beside it,
 * it went on at its slowed rate. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "predict/engine/simulate.h"
#include "study/c3/c3_recording.h"
#include "trace/format/trace_file.h"
#include "trace/graph/kernel_family.h"

/* A recorded iteration is replayed with its kernels as long as they would be beside nothing, or
 * under a policy. Collectives stay as recorded: their times have waiting in them. */

/* The times of a rank's activities, NAN: as recorded; NULL: all of them. */
struct sc_c3_kernel_times {
	double *alone_us, *policy_us[SC_N_C3_POLICIES];
};

struct replayer {
	const struct sc_trace_run *run;
	struct sc_trace_graph graph;
	struct sc_simulator *sim;
	struct sc_timeline timeline;
};

/* Sets the times of nodes, each of which has a cost of its own. */
static void set_times(struct replayer *r, size_t rank, const double *us)
{
	for (size_t n = 0; us && n < r->graph.refs.n; n++) {
		const struct sc_trace_node *ref = &r->graph.refs.at[n];

		if (ref->kind == SC_TRACE_NODE_ACT &&
		    sc_graph_class_of(&r->graph.graph, (uint32_t)n) == rank &&
		    !isnan(us[ref->index]))
			r->graph.graph.costs.at[r->graph.graph.nodes.at[n].cost].work_us =
				us[ref->index];
	}
}

/* It runs from where hosts and GPUs are done with what was before until with it, as in `replay`. */
static int replay(struct replayer *r, double *us, struct sc_err *err)
{
	const struct sc_sim_opts opts = {.no_contention = 1};
	int rc = sc_simulate(r->sim, &r->graph.graph, &opts, &r->timeline, err);

	if (rc == 0) {
		double from_us = 0;

		for (size_t k = 0; k < r->graph.begin.n; k++)
			from_us = fmax(from_us, r->timeline.end_us[r->graph.begin.at[k]]);
		for (size_t i = 0; i < r->graph.refs.n; i++)
			if (r->graph.refs.at[i].kind == SC_TRACE_NODE_CARRIED)
				from_us = fmax(from_us, r->timeline.end_us[i]);
		*us += r->timeline.total_us - from_us;
	}
	return rc;
}

static int replay_iteration(struct replayer *r, size_t iteration,
			    const struct sc_c3_kernel_times *times, struct sc_c3_what_if *out,
			    struct sc_err *err)
{
	int rc;

	sc_build_trace(r->run, iteration, &r->graph);
	rc = replay(r, &out->recorded_us, err);
	for (size_t k = 0; k < r->run->ranks.n; k++)
		set_times(r, k, times[k].alone_us);
	if (rc == 0)
		rc = replay(r, &out->nothing_lost_us, err);
	for (int p = 0; rc == 0 && p < SC_N_C3_POLICIES; p++) {
		if (isnan(out->policy_us[p]))
			continue;
		sc_build_trace(r->run, iteration, &r->graph); /* with the costs as recorded */
		for (size_t k = 0; k < r->run->ranks.n; k++)
			set_times(r, k,
				  p == SC_C3_SERIAL ? times[k].alone_us : times[k].policy_us[p]);
		if (p == SC_C3_SERIAL)
			sc_trace_serialize(r->run, &r->graph);
		if (replay(r, &out->policy_us[p], NULL))
			out->policy_us[p] = NAN;
	}
	return rc;
}

static int c3_what_if(const struct sc_trace_run *run, const struct sc_c3_kernel_times *times,
		      struct sc_c3_what_if *out, struct sc_err *err)
{
	struct replayer r = {.run = run, .sim = sc_simulator_create()};
	const double n = fmax(1, (double)run->n_iterations);
	int rc = 0;

	*out = (struct sc_c3_what_if){.n = run->n_iterations};
	out->policy_us[SC_C3_CHUNKED] = out->policy_us[SC_C3_TILE_FUSED] = NAN;
	for (size_t i = 0; rc == 0 && i < run->n_iterations; i++)
		rc = replay_iteration(&r, i, times, out, err);
	out->recorded_us /= n;
	out->nothing_lost_us /= n;
	for (int p = 0; p < SC_N_C3_POLICIES; p++)
		out->policy_us[p] /= n;
	sc_trace_graph_release(&r.graph);
	sc_timeline_release(&r.timeline);
	sc_simulator_destroy(r.sim);
	return rc;
}

enum { ARENA_BYTES = 64 << 10 };

/* A recording that is being read. */
struct seer {
	struct sc_trace_run run;
	const struct sc_trace_rank *rank; /* the one at hand */
	struct sc_device device;
	struct sc_c3_recording *out;
	struct sc_err *err;
};

/* ---- the model ---- */

static double blocks_of(const struct seer *s, const struct sc_act *act)
{
	const struct sc_trace_config *c = &s->rank->configs.at[act->config];

	return act->config ? (double)c->grid[0] * c->grid[1] * c->grid[2] : 0;
}

static bool computes(const struct seer *s, const struct sc_act *act)
{
	const int family = s->run.family.at[act->name];

	return sc_kernel_family_owner((enum sc_kernel_family)family) == SC_OWN_COMPUTE;
}

static const struct sc_merge_call *collective_of(const struct seer *s, const struct sc_act *act)
{
	return &s->rank->collectives.at[act->merge_call];
}

/* The load of the port: over NICs a rank moves only its part of those of a usual node. */
static double load_of(const struct seer *s)
{
	const struct sc_device *d = &s->device;
	const double nics = sc_gbit_to_gbps(d->usual_nic_gbit_s) * (double)d->usual_nics_per_node /
			    fmax(1, (double)d->usual_gpus_per_node);
	const double port = (double)d->nvlink_links * d->nvlink_link_gbps;

	return s->run.spans_nodes && nics > 0 && port > 0 ? fmin(1, nics / port) : 1;
}

static struct sc_interfere_seen known_of(const struct seer *s, const struct sc_beside *b)
{
	const struct sc_act *act = &s->rank->acts.at[b->act];
	const struct sc_act *other = &s->rank->acts.at[b->beside];
	const bool is_comm = act->kind == SC_ACT_COLLECTIVE;
	const struct sc_act *kernel = is_comm ? other : act, *comm = is_comm ? act : other;
	const int kind = collective_of(s, comm)->kind;

	return (struct sc_interfere_seen){
		.alone_us = b->alone_us,
		.beside_frac = b->frac,
		.blocks = blocks_of(s, kernel),
		.comm_blocks = blocks_of(s, comm),
		.comm_load = load_of(s),
		.computes = computes(s, kernel),
		.sums = kind == SC_ALL_REDUCE || kind == SC_REDUCE_SCATTER,
	};
}

static double predicted_us(const struct seer *s, const struct sc_interfere_seen *known,
			   bool is_comm)
{
	if (!s->out->device || !(known->alone_us > 0))
		return NAN;
	return is_comm ? sc_interfere_seen_collective_us(&s->device, known)
		       : sc_interfere_seen_kernel_us(&s->device, known);
}

/* ---- what was seen ---- */

static void add_seen(struct seer *s, const struct sc_beside *b, struct sc_c3_seen_side *side)
{
	const struct sc_act *act = &s->rank->acts.at[b->act];
	const struct sc_act *other = &s->rank->acts.at[b->beside];
	const bool is_comm = act->kind == SC_ACT_COLLECTIVE;
	const struct sc_merge_call *c = collective_of(s, is_comm ? act : other);
	struct sc_c3_seen seen = {
		.rank = s->rank->rank,
		.name = sc_arena_strdup(&s->out->arena, sc_trace_run_name(&s->run, act->name)),
		.collective = c->kind < 0 ? "" : sc_collective_names[c->kind],
		.bytes = c->bytes,
		.time_us = b->time_us,
		.overlap_us = b->overlap_us,
		.alone_us = b->alone_us > 0 ? b->alone_us : (double)NAN,
		.known = known_of(s, b),
	};

	seen.predicted_us = predicted_us(s, &seen.known, is_comm);
	seen.group =
		is_comm ? seen.collective
			: sc_kernel_family_name((enum sc_kernel_family)s->run.family.at[act->name]);
	SC_VEC_PUSH(&side->list, seen);
}

static void add_stretch(struct sc_c3_recording *out, struct sc_overlap_stretch seen)
{
	/* A side takes no longer than the stretch for its work in it where nothing slows it; others
	 * alone waited, or ran on fewer streams. */
	out->n_shorter += seen.compute_us > seen.us || seen.comm_us > seen.us;
	if (!isnan(seen.compute_us))
		seen.compute_us = fmin(seen.compute_us, seen.us);
	if (!isnan(seen.comm_us))
		seen.comm_us = fmin(seen.comm_us, seen.us);

	SC_VEC_PUSH(&out->stretches, seen);
	if (!(seen.compute_us > 0 && seen.comm_us > 0))
		return;
	out->n_known++;
	out->known_us += seen.us;
	out->serial_us += seen.compute_us + seen.comm_us;
	out->longer_us += fmax(seen.compute_us, seen.comm_us);
}

/* Finds the largest share of the SMs that a collective beside kernels has. */
static double reserved_share(const struct seer *s, const struct sc_overlaps *o)
{
	double share = 0;

	for (size_t i = 0; i < o->collectives.n; i++) {
		const struct sc_interfere_seen known = known_of(s, &o->collectives.at[i]);
		struct sc_cost cost;

		sc_interfere_seen_collective(&s->device, &known, &cost);
		share = fmax(share, cost.demand[SC_RES_SM]);
	}
	return share;
}

static double *unknown_times(struct seer *s)
{
	double *us = sc_arena_alloc(&s->out->arena, (s->rank->acts.n + 1) * sizeof(*us));

	for (size_t i = 0; i < s->rank->acts.n; i++)
		us[i] = NAN;
	return us;
}

/* Kernels that run beside nothing have fewer SMs, too, where some are kept for collectives. */
static void set_reserved(const struct seer *s, double share, double *us)
{
	for (size_t i = 0; i < s->rank->acts.n; i++) {
		const struct sc_act *act = &s->rank->acts.at[i];
		const struct sc_interfere_seen known = {
			.alone_us = sc_trace_act_work_us(&s->run, s->rank, act),
			.blocks = blocks_of(s, act),
			.computes = computes(s, act),
		};

		if (act->kind == SC_ACT_KERNEL)
			us[i] = sc_interfere_seen_reserved_us(&s->device, &known, share);
	}
}

static void set_beside(const struct seer *s, const struct sc_beside *b, double share,
		       const struct sc_c3_kernel_times *out)
{
	const struct sc_device *device = &s->device;
	struct sc_interfere_seen known = known_of(s, b);
	const struct sc_merge_call *c = collective_of(s, &s->rank->acts.at[b->beside]);
	const int64_t node = device->usual_gpus_per_node;
	const bool leaves = s->run.spans_nodes && (c->group_size < 0 || c->group_size > node);
	const struct sc_transfer transfer = {
		.shape.kind = c->kind < 0 ? SC_ALL_TO_ALL : (enum sc_collective)c->kind,
		.n_nodes = leaves ? 2 : 1};
	double copied;

	/* The model says how long a kernel takes that never ran alone. */
	if (!(known.alone_us > 0))
		known.alone_us = sc_interfere_seen_alone_us(device, &known, b->time_us);
	out->alone_us[b->act] = known.alone_us;
	out->policy_us[SC_C3_COMM_FIRST][b->act] = sc_interfere_seen_kernel_us(device, &known);
	out->policy_us[SC_C3_RESERVE][b->act] =
		sc_interfere_seen_reserved_us(device, &known, share);
	/* Copy engines move only some collectives; where no shapes are recorded it is not known
	 * whether one leaves its node. */
	if (sc_interfere_copy_unfit(&transfer))
		return;
	copied = sc_interfere_seen_copied_us(device, &known);
	out->policy_us[SC_C3_COPY_ENGINE][b->act] = copied;
	out->policy_us[SC_C3_COPY_ENGINE_RELIEF][b->act] =
		known.computes ? copied : copied / (1 + device->interference.relief_gain);
}

static void set_seen_times(struct seer *s, const struct sc_overlaps *o,
			   struct sc_c3_kernel_times *out)
{
	static const enum sc_c3_policy policies[] = {SC_C3_COMM_FIRST, SC_C3_RESERVE,
						     SC_C3_COPY_ENGINE, SC_C3_COPY_ENGINE_RELIEF};
	double share;

	if (!s->out->device)
		return;
	share = reserved_share(s, o);
	out->alone_us = unknown_times(s);
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		out->policy_us[policies[i]] = unknown_times(s);
	/* A recorded collective has its SMs until it ends, and then kernels have all. */
	out->policy_us[SC_C3_COMM_FIRST_RESERVE] = out->policy_us[SC_C3_COMM_FIRST];
	set_reserved(s, share, out->policy_us[SC_C3_RESERVE]);
	for (size_t i = 0; i < o->kernels.n; i++)
		set_beside(s, &o->kernels.at[i], share, out);
}

static void see_rank(struct seer *s, const struct sc_trace_rank *rank,
		     struct sc_c3_kernel_times *times)
{
	struct sc_c3_recording *out = s->out;
	struct sc_overlaps o;

	s->rank = rank;
	sc_overlaps_find(&s->run, rank, &o);
	for (size_t i = 0; i < o.kernels.n; i++)
		add_seen(s, &o.kernels.at[i], &out->kernels);
	for (size_t i = 0; i < o.collectives.n; i++)
		add_seen(s, &o.collectives.at[i], &out->collectives);
	for (size_t i = 0; i < o.stretches.n; i++)
		add_stretch(out, o.stretches.at[i]);
	set_seen_times(s, &o, times);
	out->kernels.n_recorded += o.n_kernels;
	out->collectives.n_recorded += o.n_collectives;
	out->compute_us += o.compute_us;
	out->comm_us += o.comm_us;
	out->both_us += o.both_us;
	out->span_us += o.span_us;
	sc_overlaps_release(&o);
}

/* ---- sums ---- */

static void sum_group(const struct sc_c3_seen_side *side, struct sc_arena *arena,
		      struct sc_c3_seen_group *g)
{
	double *predicted = sc_arena_calloc(arena, side->list.n + 1, sizeof(*predicted));
	double *measured = sc_arena_calloc(arena, side->list.n + 1, sizeof(*measured));
	size_t n = 0;

	for (size_t i = 0; i < side->list.n; i++) {
		const struct sc_c3_seen *seen = &side->list.at[i];

		if (g->name && strcmp(g->name, seen->group) != 0)
			continue;
		g->n++;
		if (isnan(seen->alone_us))
			continue;
		g->n_known++;
		g->time_us += seen->time_us;
		g->alone_us += seen->alone_us;
		g->predicted_us += seen->predicted_us;
		if (isnan(seen->predicted_us) || !(seen->time_us > 0))
			continue;
		predicted[n] = seen->predicted_us;
		measured[n++] = seen->time_us;
	}
	g->accuracy = sc_accuracy_compute(predicted, measured, n, arena);
}

/* Sums by group, in the order of first appearance. */
static void sum_side(struct sc_c3_seen_side *side, struct sc_arena *arena)
{
	for (size_t i = 0; i < side->list.n; i++) {
		const struct sc_c3_seen_group group = {.name = side->list.at[i].group};
		size_t g = 0;

		while (g < side->groups.n && strcmp(side->groups.at[g].name, group.name) != 0)
			g++;
		if (g == side->groups.n)
			SC_VEC_PUSH(&side->groups, group);
	}
	for (size_t g = 0; g < side->groups.n; g++)
		sum_group(side, arena, &side->groups.at[g]);
	sum_group(side, arena, &side->all);
}

/* ---- which device ---- */

static int find_device(struct seer *s, const char *given)
{
	struct sc_c3_recording *out = s->out;
	const char *id = given ? given : sc_device_named(out->gpu, &out->arena);
	const struct sc_interference_coef *c = &s->device.interference;
	int rc;

	if (!id) {
		sc_warn(&out->warnings, "%s%.40s: nothing is predicted; --device names one",
			*out->gpu ? "no device file for the trace's GPU, "
				  : "the trace does not name its GPU",
			out->gpu);
		return 0;
	}
	out->device = sc_arena_strdup(&out->arena, id);
	rc = sc_device_load(out->device, &out->arena, &s->device, s->err);
	if (rc)
		return rc;
	if (!(c->path_compute > 0))
		sc_warn(&out->warnings,
			"%s has no interference coefficients: predictions know of SMs and memory "
			"bandwidth only",
			id);
	return 0;
}

static void warn(struct sc_c3_recording *out)
{
	const struct sc_c3_seen_group *k = &out->kernels.all, *c = &out->collectives.all;

	if (k->n_known < k->n)
		sc_warn(&out->warnings,
			"%zu of %zu kernels beside communication never ran alone, by launch and "
			"shapes or place: they are left out of slowdowns",
			k->n - k->n_known, k->n);
	if (k->n_known > 0 && k->time_us < k->alone_us)
		sc_warn(&out->warnings,
			"kernels took less beside communication than alone: more than what ran beside them "
			"differs");
	if (c->n > 0 && c->n_known == 0)
		sc_warn(&out->warnings,
			"no collective of those beside computation ran alone: their slowdown is not "
			"known");
	if (out->n_ranks == 1 && c->n_known > 0)
		sc_warn(&out->warnings, "one rank: times of collectives have waiting in them");
	if (out->n_known > 0 && out->known_us > out->serial_us)
		sc_warn(&out->warnings,
			"stretches are longer than what ran in them takes one after the other");
	if (out->n_shorter > 0)
		sc_warn(&out->warnings,
			"%zu of %zu stretches are shorter than a side of them alone, which waited or had "
			"other shapes there: it counts as long as the stretch",
			out->n_shorter, out->stretches.n);
}

static int see(struct seer *s, const char *device)
{
	struct sc_c3_recording *out = s->out;
	struct sc_c3_kernel_times *times;
	int rc;

	out->n_ranks = s->run.ranks.n;
	out->gpu = sc_arena_strdup(&out->arena, s->run.ranks.at[0].gpu);
	rc = find_device(s, device);
	if (rc)
		return rc;
	times = sc_arena_calloc(&out->arena, s->run.ranks.n, sizeof(*times));
	for (size_t r = 0; r < s->run.ranks.n; r++)
		see_rank(s, &s->run.ranks.at[r], &times[r]);
	if (out->device && out->kernels.list.n)
		rc = c3_what_if(&s->run, times, &out->what_if, s->err);
	if (rc)
		return rc;
	sum_side(&out->kernels, &out->arena);
	sum_side(&out->collectives, &out->arena);
	warn(out);
	return 0;
}

int sc_c3_recording_load(const char *path, const char *device, struct sc_c3_recording *out,
			 struct sc_err *err)
{
	const struct sc_trace_run_opts with_shapes = {.shapes = true};
	struct seer s = {.out = out, .err = err};
	struct sc_trace_files files;
	int rc;

	memset(out, 0, sizeof(*out));
	sc_arena_init(&out->arena, ARENA_BYTES);
	rc = sc_trace_list(path, &out->arena, &files.at, &files.n, err);
	if (rc == 0)
		rc = sc_trace_loss_of_run(files.at, files.n, &out->loss, err);
	if (rc == 0)
		rc = sc_trace_run_load(&files, &with_shapes, &s.run, err);
	if (rc == 0) {
		rc = see(&s, device);
		sc_trace_run_release(&s.run);
	}
	if (rc)
		sc_c3_recording_release(out);
	return rc;
}

static void release_side(struct sc_c3_seen_side *side)
{
	SC_VEC_RELEASE(&side->list);
	SC_VEC_RELEASE(&side->groups);
}

void sc_c3_recording_release(struct sc_c3_recording *recording)
{
	release_side(&recording->kernels);
	release_side(&recording->collectives);
	SC_VEC_RELEASE(&recording->stretches);
	sc_arena_release(&recording->arena);
}
