/* Tries one pair under every policy: finds the best, and the sizes at which another one is. */
#include <math.h>

#include "study/c3/c3.h"

/* Policies this near are equally good: the simplest, which comes first, is taken. */
#define TIE 1.01
/* Times of the two sides this near are equal (ConCCL, arXiv:2412.14335). */
#define EQUAL 1.15

const char *const sc_c3_class_names[] = {
	[SC_C3_G_LONG] = "G-long",
	[SC_C3_C_LONG] = "C-long",
	[SC_C3_GC_EQUAL] = "GC-equal",
};

/* A choice that is impossible with the pair does not apply; it is an error when nothing applies. */
static int try_all(struct sc_c3_study *study, const struct sc_c3_pair *pair,
		   const struct sc_c3_advise_opts *opts, struct sc_c3_advice *out,
		   struct sc_err *err)
{
	double fastest = INFINITY;
	struct sc_err why = {.code = SC_OK};

	out->n = opts->n ? opts->n : SC_N_C3_POLICIES;
	for (size_t p = 0; p < out->n; p++) {
		struct sc_err own = {.code = SC_OK};

		out->choice[p] = opts->n ? opts->choice[p]
					 : (struct sc_c3_choice){.policy = (enum sc_c3_policy)p};
		out->applies[p] =
			sc_c3_predict(study, pair, &out->choice[p], &out->result[p], &own) == 0;
		if (own.code != SC_OK)
			why = own;
		if (out->applies[p])
			fastest = fmin(fastest, out->result[p].time_us);
	}
	if (isinf(fastest))
		return sc_err_set(err, why.code, "%s", why.text);
	for (size_t p = out->n; p-- > 0;)
		if (out->applies[p] && out->result[p].time_us <= fastest * TIE)
			out->best = p;
	return 0;
}

/* The pair with another size of its collective. Given times alone scale in proportion. */
static struct sc_c3_pair resized(const struct sc_c3_pair *pair, double bytes)
{
	struct sc_c3_pair out = *pair;
	const double factor = bytes / pair->transfer.shape.bytes;
	struct sc_cost before, after;

	sc_interfere_collective(&pair->transfer, 0, 0, &before);
	out.transfer.shape.bytes = bytes;
	sc_interfere_collective(&out.transfer, 0, 0, &after);
	out.comm_us *= sc_cost_alone_us(&after) / sc_cost_alone_us(&before);
	if (pair->kind == SC_C3_INDEPENDENT)
		return out;
	sc_interfere_kernel(pair->transfer.device, &pair->gemm, 0, 0, &before);
	out.gemm.u.gemm.m = fmax(1, pair->gemm.u.gemm.m * factor);
	sc_interfere_kernel(pair->transfer.device, &out.gemm, 0, 0, &after);
	out.compute_us *= sc_cost_alone_us(&after) / sc_cost_alone_us(&before);
	return out;
}

/* Adds the loss of `us` over the best of a size; NAN stays. */
static void add_loss(struct sc_c3_loss *loss, double us, double best_us)
{
	const double frac = us / best_us - 1;

	loss->mean_frac += frac;
	loss->most_frac = isnan(frac) ? frac : loss->most_frac < frac ? frac : loss->most_frac;
}

/* Compares the rule, a number of SMs or pieces for each part, with the best of each size. */
static int try_rule(struct sc_c3_study *study, const struct sc_c3_advise_opts *opts,
		    const double *best_us, struct sc_c3_advice *out, struct sc_err *err)
{
	const struct sc_c3_change *change = out->changes;
	size_t i = 0;
	int rc = 0;

	for (double bytes = opts->from_bytes; rc == 0 && bytes <= opts->to_bytes; bytes *= 2, i++) {
		const struct sc_c3_pair pair = resized(&out->named->pair, bytes);
		struct sc_c3_choice choice;
		struct sc_c3_result result;

		if (change + 1 < out->changes + out->n_changes && bytes >= change[1].bytes)
			change++;
		choice = out->choice[change->best];
		if (sc_c3_counts(choice.policy))
			choice.n = change->n;
		rc = sc_c3_predict(study, &pair, &choice, &result, err);
		if (rc == 0)
			add_loss(&out->rule_loss, result.time_us, best_us[i]);
	}
	out->rule_loss.mean_frac /= (double)i;
	return rc;
}

static int try_sizes(struct sc_c3_study *study, const struct sc_c3_advise_opts *opts,
		     struct sc_c3_advice *out, struct sc_err *err)
{
	double best_us[64]; /* of all choices; more than there are doublings to the largest size */
	struct sc_c3_advice at;
	size_t n = 0;
	int rc = 0;

	for (double bytes = opts->from_bytes; bytes <= opts->to_bytes; bytes *= 2, n++) {
		const struct sc_c3_pair pair = resized(&out->named->pair, bytes);

		rc = try_all(study, &pair, opts, &at, err);
		if (rc)
			return rc;
		best_us[n] = INFINITY;
		for (size_t p = 0; p < at.n; p++)
			if (at.applies[p])
				best_us[n] = fmin(best_us[n], at.result[p].time_us);
		for (size_t p = 0; p < at.n; p++)
			add_loss(&out->loss[p], at.applies[p] ? at.result[p].time_us : (double)NAN,
				 best_us[n]);
		if (out->n_changes == 0 || (out->changes[out->n_changes - 1].best != at.best &&
					    out->n_changes < SC_C3_MAX_CHANGES))
			out->changes[out->n_changes++] = (struct sc_c3_change){bytes, at.best, 0};
		out->changes[out->n_changes - 1].n = at.result[at.best].n;
	}
	for (size_t p = 0; p < out->n; p++)
		out->loss[p].mean_frac /= (double)n;
	return try_rule(study, opts, best_us, out, err);
}

int sc_c3_advise(struct sc_c3_study *study, const struct sc_c3_named *named,
		 const struct sc_c3_advise_opts *opts, struct sc_c3_advice *out, struct sc_err *err)
{
	const struct sc_c3_result *r;
	int rc;

	*out = (struct sc_c3_advice){.named = named};
	rc = try_all(study, &named->pair, opts, out, err);
	r = &out->result[out->best];
	out->class = r->compute_us > EQUAL * r->comm_us   ? SC_C3_G_LONG
		     : r->comm_us > EQUAL * r->compute_us ? SC_C3_C_LONG
							  : SC_C3_GC_EQUAL;
	if (rc == 0 && opts->from_bytes > 0)
		rc = try_sizes(study, opts, out, err);
	return rc;
}
