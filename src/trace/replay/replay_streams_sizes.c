/* How long gradient collectives of other sizes take: a line through the run's own, of each size the shortest
 * (that waited least), fitted to relative errors; where there is one size only, a line through what the
 * model of the cluster says. Only ratios of it are used: buckets of the recorded sizes take what was
 * recorded. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/replay/replay_streams_priv.h"

enum { MODEL_SMALL_BYTES = 1 << 20, MODEL_LARGE_BYTES = 256 << 20 };

struct size_time {
	double bytes, us;
};
struct size_times {
	SC_VEC(struct size_time) list;
};

/* ---- which are of gradients ---- */

/* In one rank's iteration: those of a communicator and kind, in the order of their launches. */
struct comm_use {
	uint64_t comm;
	int kind;
	uint32_t last;            /* activity */
	size_t n_next, n_at_once; /* that have a next; and that something waits for before it */
};
struct comm_uses {
	SC_VEC(struct comm_use) list;
};

static struct comm_use *use_of(struct comm_uses *uses, const struct sc_merge_call *call)
{
	const struct comm_use none = {.comm = call->comm, .kind = call->kind, .last = SC_NONE};

	for (size_t i = 0; i < uses->list.n; i++)
		if (uses->list.at[i].comm == call->comm && uses->list.at[i].kind == call->kind)
			return &uses->list.at[i];
	SC_VEC_PUSH(&uses->list, none);
	return &uses->list.at[uses->list.n - 1];
}

static void use_at(uint32_t *first_use, uint32_t act, uint32_t call)
{
	if (call < first_use[act])
		first_use[act] = call;
}

/* By activity: the first call that waits for it, or launches what does. */
static uint32_t *first_uses(const struct sc_trace_rank *rank)
{
	uint32_t *first_use = sc_xmalloc((rank->acts.n + 1) * sizeof(*first_use));
	uint32_t *lane_last = sc_xmalloc((rank->streams.n + 1) * sizeof(*lane_last));

	memset(first_use, 0xff, (rank->acts.n + 1) * sizeof(*first_use));
	memset(lane_last, 0xff, (rank->streams.n + 1) * sizeof(*lane_last));
	for (uint32_t a = 0; a < rank->acts.n; a++) {
		const struct sc_act *act = &rank->acts.at[a];

		for (uint8_t i = 0; i < act->n_waits; i++)
			use_at(first_use, rank->waits.at[act->first_wait + i], act->launch);
		if (lane_last[act->lane] != SC_NONE && act->kind != SC_ACT_COLLECTIVE)
			use_at(first_use, lane_last[act->lane], act->launch);
		lane_last[act->lane] = a;
	}
	for (uint32_t c = 0; c < rank->calls.n; c++)
		for (uint8_t i = 0; i < rank->calls.at[c].n_waits; i++)
			if (rank->calls.at[c].kind == SC_CALL_SYNC)
				use_at(first_use, rank->waits.at[rank->calls.at[c].first_wait + i],
				       c);
	free(lane_last);
	return first_use;
}

static bool is_launched_in(const struct sc_trace_iteration *it, const struct sc_act *act)
{
	return act->kind == SC_ACT_COLLECTIVE && act->launch != SC_NONE &&
	       act->launch >= it->begin && act->launch <= it->end;
}

static void find_uses(const struct sc_trace_rank *rank, const struct sc_merge_rank *merged,
		      const struct sc_trace_iteration *it, const uint32_t *first_use,
		      struct comm_uses *uses)
{
	for (size_t i = 0; i < uses->list.n; i++)
		uses->list.at[i].last = SC_NONE;
	for (uint32_t a = it->first_act; a < it->end_act; a++) {
		struct comm_use *use;

		if (!is_launched_in(it, &rank->acts.at[a]))
			continue;
		use = use_of(uses, &merged->calls.at[rank->acts.at[a].merge_call]);
		if (use->last != SC_NONE) {
			use->n_next++;
			use->n_at_once += first_use[use->last] < rank->acts.at[a].launch;
		}
		use->last = a;
	}
}

static void find_gradients(struct stream_study *study, size_t r)
{
	const struct sc_trace_rank *rank = &study->run.ranks.at[r];
	const struct sc_merge_rank *merged = &study->run.merge.ranks.at[r];
	uint32_t *first_use = first_uses(rank);
	struct comm_uses uses = {.list = {0}};

	for (size_t i = 0; i < study->run.n_iterations; i++)
		find_uses(rank, merged, &rank->iterations.at[i], first_use, &uses);
	study->gradient[r] = sc_xmalloc((merged->calls.n + 1) * sizeof(bool));
	for (size_t c = 0; c < merged->calls.n; c++) {
		const struct comm_use *use = use_of(&uses, &merged->calls.at[c]);
		const int kind = rank->collectives.at[c].kind;

		study->gradient[r][c] = (kind == SC_ALL_REDUCE || kind == SC_REDUCE_SCATTER) &&
					(use->n_next == 0 || use->n_at_once < use->n_next);
	}
	SC_VEC_RELEASE(&uses.list);
	free(first_use);
}

/* Of gradients: where autograd has a thread of its own, launched there, else anywhere; but not of a communicator
 * each of whose collectives something waits for before the next is launched, as those of activations. */
bool sc_streams_is_gradient(const struct stream_study *study, size_t r, size_t iteration,
			    const struct sc_act *act)
{
	const struct sc_trace_rank *rank = &study->run.ranks.at[r];
	const struct sc_trace_iteration *it = &rank->iterations.at[iteration];

	return is_launched_in(it, act) && study->gradient[r][act->merge_call] &&
	       (rank->n_threads == 1 ||
		rank->calls.at[act->launch].lane != rank->calls.at[it->begin].lane);
}

/* ---- times by size ---- */

static void add_size(struct size_times *sizes, double bytes, double us)
{
	const struct size_time size = {bytes, us};

	for (size_t i = 0; i < sizes->list.n; i++)
		if (!(sizes->list.at[i].bytes < bytes || sizes->list.at[i].bytes > bytes)) {
			sizes->list.at[i].us = fmin(sizes->list.at[i].us, us);
			return;
		}
	SC_VEC_PUSH(&sizes->list, size);
}

static void collect_sizes(const struct stream_study *study, const struct stream_fit *fit,
			  struct size_times *sizes)
{
	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t i = 0; i < study->run.ranks.at[r].collectives.n; i++) {
			const struct sc_trace_collective *c =
				&study->run.ranks.at[r].collectives.at[i];
			const int32_t instance = study->run.merge.ranks.at[r].calls.at[i].instance;

			if (c->kind == fit->kind && c->bytes > 0 &&
			    sc_streams_ranks_of(study, c, instance) == fit->n_ranks)
				add_size(sizes, (double)c->bytes, c->bound_us);
		}
}

/* Least squares of relative errors, with neither part below 0. */
static void fit_line(const struct size_times *sizes, struct stream_fit *fit)
{
	double s1 = 0, sx = 0, sxx = 0, sy = 0, sxy = 0, det;

	for (size_t i = 0; i < sizes->list.n; i++) {
		const struct size_time *t = &sizes->list.at[i];
		const double w = t->us > 0 ? 1 / (t->us * t->us) : 0;

		s1 += w;
		sx += w * t->bytes;
		sxx += w * t->bytes * t->bytes;
		sy += w * t->us;
		sxy += w * t->bytes * t->us;
	}
	det = s1 * sxx - sx * sx;
	fit->us_per_byte = det > 0 ? (s1 * sxy - sx * sy) / det : 0;
	fit->latency_us = det > 0 ? (sy - fit->us_per_byte * sx) / s1 : 0;
	if (fit->latency_us < 0) {
		fit->latency_us = 0;
		fit->us_per_byte = sxy / sxx;
	}
}

static void model_line(const struct stream_study *study, struct stream_fit *fit)
{
	struct sc_trace_collective c = {.kind = fit->kind, .bytes = MODEL_SMALL_BYTES};
	const double small = sc_streams_model_us(study, &c, fit->n_ranks);

	c.bytes = MODEL_LARGE_BYTES;
	fit->us_per_byte = (sc_streams_model_us(study, &c, fit->n_ranks) - small) /
			   (MODEL_LARGE_BYTES - MODEL_SMALL_BYTES);
	fit->latency_us = fmax(0, small - fit->us_per_byte * MODEL_SMALL_BYTES);
	fit->n_sizes = 0;
}

static int add_fit(struct stream_study *study, const struct sc_trace_collective *c, int n_ranks,
		   struct sc_err *err)
{
	struct stream_fit fit = {.kind = c->kind, .n_ranks = n_ranks};
	struct size_times sizes = {.list = {0}};

	for (size_t i = 0; i < study->fits.n; i++)
		if (study->fits.at[i].kind == c->kind && study->fits.at[i].n_ranks == n_ranks)
			return 0;
	collect_sizes(study, &fit, &sizes);
	fit.n_sizes = sizes.list.n;
	if (fit.n_sizes > 1)
		fit_line(&sizes, &fit);
	SC_VEC_RELEASE(&sizes.list);
	if (fit.n_sizes < 2 || !(fit.us_per_byte > 0)) {
		if (!study->opts->network.us)
			return sc_err_set(
				err, SC_EVALUE,
				"--bucket-mib: how long a %s of another size takes cannot be told "
				"from the trace (sizes=%zu); give a config with --cluster",
				sc_collective_names[c->kind], fit.n_sizes);
		model_line(study, &fit);
	}
	SC_VEC_PUSH(&study->fits, fit);
	return 0;
}

int sc_streams_fit_sizes(struct stream_study *study, struct sc_err *err)
{
	int rc = 0;

	study->gradient = sc_xmalloc((study->run.ranks.n + 1) * sizeof(*study->gradient));
	for (size_t r = 0; r < study->run.ranks.n; r++)
		find_gradients(study, r);
	for (size_t r = 0; r < study->run.ranks.n; r++) {
		const struct sc_trace_rank *rank = &study->run.ranks.at[r];

		for (size_t i = 0; i < study->run.n_iterations; i++) {
			const struct sc_trace_iteration *it = &rank->iterations.at[i];

			for (uint32_t a = it->first_act; rc == 0 && a < it->end_act; a++) {
				const struct sc_act *act = &rank->acts.at[a];
				const struct sc_trace_collective *c;

				if (!sc_streams_is_gradient(study, r, i, act))
					continue;
				c = &rank->collectives.at[act->merge_call];
				if (c->bytes <= 0)
					return sc_err_at(
						err, SC_EVALUE, rank->path, 0, 0,
						"--bucket-mib: the trace does not say how many "
						"bytes an operation has (%s in backward); record "
						"with shapes or NCCL's payloads",
						sc_collective_names[c->kind]);
				rc = add_fit(study, c,
					     sc_streams_ranks_of(study, c,
								 study->run.merge.ranks.at[r]
									 .calls.at[act->merge_call]
									 .instance),
					     err);
			}
		}
	}
	if (rc == 0 && study->fits.n == 0)
		rc = sc_err_set(err, SC_EVALUE,
				"--bucket-mib: no all-reduce or reduce-scatter is of gradients: "
				"launched by autograd's thread if there is one, and not waited for "
				"at once, as those of activations are");
	return rc;
}
