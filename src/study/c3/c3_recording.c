/* What computation and communication did to each other in a recording, and what the model says of it. Each pair is
 * predicted from its time alone: for as long as the other ran beside it, it went on at its slowed rate. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/collective.h"
#include "predict/recorded/kernel_family.h"
#include "predict/recorded/overlap.h"
#include "study/c3/c3_priv.h"
#include "trace/trace_file.h"

enum { ARENA_BYTES = 64 << 10 };

/* One recording being read. */
struct seer {
	struct sc_trace_run run;
	const struct sc_trace_rank *rank; /* the one at hand */
	struct sc_c3_machine machine;
	struct sc_c3_study *study; /* NULL: the device is not known */
	struct sc_c3_recording *out;
	struct sc_err *err;
};

/* ---- the model ---- */

static double blocks_of(const struct seer *s, const struct sc_act *act)
{
	const struct sc_trace_config *c = &s->rank->configs.at[act->config];

	return act->config ? (double)c->grid[0] * c->grid[1] * c->grid[2] : 0;
}

static const struct sc_trace_collective *collective_of(const struct seer *s,
						       const struct sc_act *act)
{
	return &s->rank->collectives.at[act->merge_call];
}

static void kernel_cost(const struct seer *s, const struct sc_act *act, struct sc_cost *out)
{
	const enum sc_kernel_family family = (enum sc_kernel_family)s->run.family.at[act->name];

	sc_interfere_known_kernel(&s->machine.request.device,
				  sc_kernel_family_owner(family) == SC_OWN_COMPUTE,
				  blocks_of(s, act), out);
}

static int ranks_of(const struct seer *s, const struct sc_trace_collective *c)
{
	return c->group_size > 0 ? c->group_size : s->run.world;
}

/* Within a node, and its size known: by the collective model, else the path to memory alone. */
static int comm_cost(struct seer *s, const struct sc_act *act, struct sc_cost *out)
{
	const struct sc_trace_collective *c = collective_of(s, act);
	const struct sc_device *device = &s->machine.request.device;
	const int n = ranks_of(s, c);
	const double blocks = blocks_of(s, act);
	struct sc_transfer transfer = {
		.device = device,
		.shape = {(enum sc_collective)c->kind, (double)c->bytes, SC_BF16},
		.n_ranks = n,
	};
	double sms;
	int rc;

	sc_interfere_known_collective(device, blocks, out);
	if (c->kind < 0 || c->kind >= SC_SEND_RECV || c->bytes <= 0 || n < 2 ||
	    s->run.spans_nodes || n > device->usual_gpus_per_node)
		return 0;
	rc = sc_c3_machine_fabric(&s->machine, n, &s->out->arena, &transfer.fabric);
	if (rc)
		return rc;
	sms = out->demand[SC_RES_SM];
	sc_interfere_collective(&transfer, 0, 0, out);
	if (blocks > 0)
		out->demand[SC_RES_SM] = sms;
	return 0;
}

/* Alone it takes alone_us; beside the other it goes on at 1 / slowdown. */
static double predict(const struct sc_beside *b, double slowdown)
{
	return b->alone_us + b->overlap_us * (1 - 1 / slowdown);
}

static int predict_pair(struct seer *s, const struct sc_beside *b, double *out)
{
	const struct sc_act *act = &s->rank->acts.at[b->act];
	const struct sc_act *other = &s->rank->acts.at[b->beside];
	const bool is_comm = act->kind == SC_ACT_COLLECTIVE;
	struct sc_c3_slowdowns slow;
	struct sc_cost kernel, comm;
	int rc;

	*out = NAN;
	if (!s->study || !(b->alone_us > 0))
		return 0;
	kernel_cost(s, is_comm ? other : act, &kernel);
	rc = comm_cost(s, is_comm ? act : other, &comm);
	if (rc == 0)
		rc = sc_c3_slow_each_other(s->study, &kernel, &comm, &slow, s->err);
	if (rc == 0)
		*out = predict(b, is_comm ? slow.comm : slow.compute);
	return rc;
}

/* ---- what was seen ---- */

static const char *kind_name(const struct sc_trace_collective *c)
{
	return c->kind < 0 ? "" : sc_collective_names[c->kind];
}

static int add_seen(struct seer *s, const struct sc_beside *b, struct sc_c3_seen_side *side)
{
	const struct sc_act *act = &s->rank->acts.at[b->act];
	const struct sc_act *other = &s->rank->acts.at[b->beside];
	const bool is_comm = act->kind == SC_ACT_COLLECTIVE;
	const struct sc_trace_collective *c = collective_of(s, is_comm ? act : other);
	struct sc_c3_seen seen = {
		.rank = s->rank->rank,
		.name = sc_arena_strdup(&s->out->arena, sc_trace_run_name(&s->run, act->name)),
		.collective = kind_name(c),
		.bytes = c->bytes,
		.time_us = b->time_us,
		.overlap_us = b->overlap_us,
		.alone_us = b->alone_us > 0 ? b->alone_us : (double)NAN,
	};
	int rc = predict_pair(s, b, &seen.predicted_us);

	seen.group =
		is_comm ? seen.collective
			: sc_kernel_family_name((enum sc_kernel_family)s->run.family.at[act->name]);
	if (rc == 0)
		SC_VEC_PUSH(&side->list, seen);
	return rc;
}

static void add_stretch(struct seer *s, const struct sc_stretch *stretch)
{
	struct sc_c3_recording *out = s->out;
	const struct sc_c3_seen_stretch seen = {
		.rank = s->rank->rank,
		.device = stretch->device,
		.start_us = (double)stretch->start_ns / (double)SC_NS_PER_US,
		.us = stretch->us,
		.compute_us = stretch->compute_us,
		.comm_us = stretch->comm_us,
	};

	SC_VEC_PUSH(&out->stretches, seen);
	if (!(seen.compute_us > 0 && seen.comm_us > 0))
		return;
	out->n_known++;
	out->known_us += seen.us;
	out->serial_us += seen.compute_us + seen.comm_us;
	out->longer_us += fmax(seen.compute_us, seen.comm_us);
}

static int see_rank(struct seer *s, const struct sc_trace_rank *rank)
{
	struct sc_c3_recording *out = s->out;
	struct sc_overlaps o;
	int rc = 0;

	s->rank = rank;
	sc_overlaps_find(&s->run, rank, &o);
	for (size_t i = 0; rc == 0 && i < o.kernels.n; i++)
		rc = add_seen(s, &o.kernels.at[i], &out->kernels);
	for (size_t i = 0; rc == 0 && i < o.collectives.n; i++)
		rc = add_seen(s, &o.collectives.at[i], &out->collectives);
	for (size_t i = 0; i < o.stretches.n; i++)
		add_stretch(s, &o.stretches.at[i]);
	out->kernels.n_recorded += o.n_kernels;
	out->collectives.n_recorded += o.n_collectives;
	out->compute_us += o.compute_us;
	out->comm_us += o.comm_us;
	out->both_us += o.both_us;
	out->span_us += o.span_us;
	sc_overlaps_release(&o);
	return rc;
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

/* By first appearance. */
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
	const struct sc_interference_coef *c = &s->machine.request.device.interference;
	int rc;

	if (!id) {
		sc_warn(&out->warnings, "%s%.40s: nothing is predicted; --device names one",
			*out->gpu ? "no device file for the trace's GPU, "
				  : "the trace does not name its GPU",
			out->gpu);
		return 0;
	}
	rc = sc_c3_machine_load(&s->machine, sc_arena_strdup(&out->arena, id), &out->arena, s->err);
	if (rc)
		return rc;
	out->device = s->machine.id;
	s->study = sc_c3_study_create();
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
	if (out->n_known > 0 && (out->known_us > out->serial_us || out->known_us < out->longer_us))
		sc_warn(&out->warnings,
			"stretches are longer than what ran in them takes one after the other, or shorter "
			"than the longer side: those alone waited or had other shapes");
}

static int see(struct seer *s, const char *device)
{
	struct sc_c3_recording *out = s->out;
	int rc;

	out->n_ranks = s->run.ranks.n;
	out->gpu = sc_arena_strdup(&out->arena, s->run.ranks.at[0].gpu);
	rc = find_device(s, device);
	for (size_t r = 0; rc == 0 && r < s->run.ranks.n; r++)
		rc = see_rank(s, &s->run.ranks.at[r]);
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
	struct seer s = {.out = out, .err = err};
	const char *const *files;
	size_t n;
	int rc;

	memset(out, 0, sizeof(*out));
	sc_arena_init(&out->arena, ARENA_BYTES);
	rc = sc_trace_list(path, &out->arena, &files, &n, err);
	if (rc == 0)
		rc = sc_trace_loss_of_run(files, n, &out->loss, err);
	if (rc == 0)
		rc = sc_trace_run_load_shapes(&(struct sc_trace_files){files, n}, &s.run, err);
	if (rc == 0) {
		rc = see(&s, device);
		sc_c3_study_destroy(s.study);
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
