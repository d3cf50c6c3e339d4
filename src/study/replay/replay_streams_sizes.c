/* How long gradient collectives of other sizes take: a line through the run's own, of each size the shortest
 * (that waited least), fitted to relative errors; where there is one size only, a line through what the
 * model of the cluster says. Only ratios of it are used: buckets of the recorded sizes take what was
 * recorded. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "study/replay/replay_streams_priv.h"

enum { MODEL_SMALL_BYTES = 1 << 20, MODEL_LARGE_BYTES = 256 << 20 };

struct size_time {
	double bytes, us;
};
struct size_times {
	SC_VEC(struct size_time) list;
};

/* Autograd has a thread of its own. */
bool sc_streams_is_gradient(const struct sc_trace_rank *rank, size_t iteration,
			    const struct sc_act *act)
{
	const struct sc_trace_iteration *it = &rank->iterations.at[iteration];
	int kind;

	if (act->kind != SC_ACT_COLLECTIVE || act->launch == SC_NONE || act->launch < it->begin ||
	    act->launch > it->end)
		return false;
	kind = rank->collectives.at[act->merge_call].kind;
	return (kind == SC_ALL_REDUCE || kind == SC_REDUCE_SCATTER) &&
	       (rank->n_threads == 1 ||
		rank->calls.at[act->launch].lane != rank->calls.at[it->begin].lane);
}

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
		if (!study->has_fabric)
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

	for (size_t r = 0; r < study->run.ranks.n; r++) {
		const struct sc_trace_rank *rank = &study->run.ranks.at[r];

		for (size_t i = 0; i < study->run.n_iterations; i++) {
			const struct sc_trace_iteration *it = &rank->iterations.at[i];

			for (uint32_t a = it->first_act; rc == 0 && a < it->end_act; a++) {
				const struct sc_act *act = &rank->acts.at[a];
				const struct sc_trace_collective *c;

				if (!sc_streams_is_gradient(rank, i, act))
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
				"--bucket-mib: no all-reduce or reduce-scatter was launched in "
				"backward, that is by another thread than the iteration's");
	return rc;
}
