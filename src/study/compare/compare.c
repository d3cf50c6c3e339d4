/* Predicts configs and replays recordings under the same draws of model error, and takes ratios to
 * the first draw by draw: errors that both share cancel. Quantiles of the ratios are the band. */
#include "study/compare/compare.h"

#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/units.h"

static int predict_compared(const struct sc_compare *compare, struct sc_compared *c,
			    struct sc_catalog *catalog, struct sc_err *err)
{
	const struct sc_candidate candidate = {.base = c->config, .file = c->config->file};
	int rc;

	c->by = sc_evaluator_create(catalog);
	c->by->opts.confidence_pct = compare->confidence_pct;
	rc = sc_evaluate(c->by, &candidate, err);
	c->reading = &c->by->prediction.reading;
	c->ms = c->by->prediction.iteration_ms;
	return rc;
}

static int replay(struct sc_compared *c, unsigned n_jobs, struct sc_err *err)
{
	struct sc_replay_opts opts;
	int rc;

	sc_replay_opts_init(&opts);
	opts.no_what_if = true;
	opts.jobs = n_jobs;
	rc = sc_replay(c->name, &opts, &c->recording, err);
	c->reading = &c->recording.reading;
	c->ms = c->recording.measured_ms;
	return rc;
}

/* Finds all times under one draw by another predictor, because a prediction's texts last only until
 * its predictor's next. */
static int predict_all(const struct sc_compare *compare, struct sc_rng *rng,
		       struct sc_predictor *predictor, double *ms, struct sc_err *err)
{
	struct sc_prediction *out = sc_xmalloc(sizeof(*out));
	struct sc_predict_opts opts;
	int rc = 0;

	sc_model_error_draw(&compare->error, rng, &opts);
	for (size_t i = 0; i < compare->n && rc == 0; i++) {
		const struct sc_compared *c = &compare->at[i];
		const size_t n = c->recording.iterations.n;

		opts.plan = c->config ? c->by->opts.plan : NULL;
		if (c->config)
			rc = sc_predict(predictor, &c->by->request, &opts, out, err);
		ms[i] = c->config ? out->iteration_ms : 0;
		/* A recording's time is the mean of as many iterations as it has, each drawn from
		 * those measured. */
		for (size_t k = 0; k < n && !c->config; k++)
			ms[i] += c->recording.iterations.at[sc_rng_below(rng, n)].measured_ms;
		ms[i] /= c->config ? 1 : (double)n;
	}
	free(out);
	return rc;
}

static bool is_single(const struct sc_compared *c)
{
	return !c->config && c->recording.iterations.n == 1;
}

static int draw_all(struct sc_compare *compare, struct sc_predictor *predictor, struct sc_err *err)
{
	double *ratios = sc_xmalloc(compare->n * SC_COMPARE_DRAWS * sizeof(*ratios));
	const double below = (SC_PCT - compare->confidence_pct) / 2;
	double ms[SC_COMPARE_MAX];
	struct sc_rng rng;
	int rc = 0;

	sc_rng_init(&rng, 1);
	for (int d = 0; d < SC_COMPARE_DRAWS && rc == 0; d++) {
		rc = predict_all(compare, &rng, predictor, ms, err);
		for (size_t i = 0; i < compare->n && rc == 0; i++)
			ratios[i * SC_COMPARE_DRAWS + (size_t)d] = ms[i] / ms[0];
	}
	for (size_t i = 0; i < compare->n && rc == 0; i++) {
		struct sc_compared *c = &compare->at[i];
		double *of = ratios + i * SC_COMPARE_DRAWS;
		size_t n = 0;

		for (int d = 0; d < SC_COMPARE_DRAWS; d++)
			n += of[d] < 1;
		c->p_faster = (double)n / SC_COMPARE_DRAWS;
		sc_sort_doubles(of, SC_COMPARE_DRAWS);
		c->low_ratio = sc_percentile_sorted(of, SC_COMPARE_DRAWS, below);
		c->high_ratio = sc_percentile_sorted(of, SC_COMPARE_DRAWS, SC_PCT - below);
		if (is_single(c) || is_single(&compare->at[0]))
			c->low_ratio = c->high_ratio = c->p_faster = NAN;
	}
	free(ratios);
	return rc;
}

int sc_compare_run(struct sc_compare *compare, struct sc_catalog *catalog, struct sc_err *err)
{
	struct sc_predictor *predictor;
	int rc = 0;

	compare->error = (struct sc_model_error){.kernels = 0};
	compare->n_recordings = 0;
	for (size_t i = 0; i < compare->n && rc == 0; i++) {
		struct sc_compared *c = &compare->at[i];
		struct sc_model_error own;

		rc = c->config ? predict_compared(compare, c, catalog, err)
			       : replay(c, compare->n_jobs, err);
		if (rc)
			break;
		c->ratio = c->ms / compare->at[0].ms;
		compare->n_recordings += !c->config;
		if (!c->config)
			continue;
		own = sc_model_error_of(&c->by->request);
		compare->error.kernels = fmax(compare->error.kernels, own.kernels);
		compare->error.links = fmax(compare->error.links, own.links);
		compare->error.host = fmax(compare->error.host, own.host);
	}
	if (rc)
		return rc;
	predictor = sc_predictor_create();
	rc = draw_all(compare, predictor, err);
	sc_predictor_destroy(predictor);
	return rc;
}

void sc_compare_release(struct sc_compare *compare)
{
	for (size_t i = 0; i < compare->n; i++) {
		sc_evaluator_destroy(compare->at[i].by);
		if (compare->at[i].recording.iterations.at)
			sc_replay_result_release(&compare->at[i].recording);
	}
}
