#include "study/compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "study/schedule/schedule_choose.h"
#include "study/shard/shard_choose.h"

static int predict(struct sc_compared *c, struct sc_catalog *catalog,
		   struct sc_predictor *predictor, struct sc_err *err)
{
	struct sc_predict_opts opts;
	const struct sc_schedule_ask ask = {c->config, catalog, c->config->file, predictor, &opts};
	int rc;

	sc_predict_opts_init(&opts);
	rc = sc_resolve_chosen(&ask, &c->request, err);
	return rc ? rc : sc_predict_chosen(predictor, &c->request, &opts, &c->prediction, err);
}

static void widen(struct sc_model_error *error, const struct sc_compared *c)
{
	const struct sc_model_error own =
		sc_model_error_of(&c->request, c->prediction.low_ms, c->prediction.high_ms);

	error->kernels = fmax(error->kernels, own.kernels);
	error->links = fmax(error->links, own.links);
	error->host = fmax(error->host, own.host);
}

/* Times of all under one draw. */
static int predict_all(const struct sc_compare *compare, struct sc_rng *rng,
		       struct sc_predictor *predictor, double *ms, struct sc_err *err)
{
	struct sc_prediction *out = sc_xmalloc(sizeof(*out));
	struct sc_predict_opts opts;
	int rc = 0;

	sc_model_error_draw(&compare->error, rng, &opts);
	for (size_t i = 0; i < compare->n && rc == 0; i++) {
		rc = sc_predict_chosen(predictor, &compare->at[i].request, &opts, out, err);
		ms[i] = out->iteration_ms;
	}
	free(out);
	return rc;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ratios: SC_COMPARE_DRAWS of them, which are sorted. */
static void judge(struct sc_compared *c, double *ratios)
{
	size_t n = 0;

	for (int d = 0; d < SC_COMPARE_DRAWS; d++)
		n += ratios[d] < 1;
	c->p_faster = (double)n / SC_COMPARE_DRAWS;
	qsort(ratios, SC_COMPARE_DRAWS, sizeof(*ratios), compare_doubles);
	c->low_ratio = sc_percentile_sorted(ratios, SC_COMPARE_DRAWS, 10);
	c->high_ratio = sc_percentile_sorted(ratios, SC_COMPARE_DRAWS, 90);
}

static int draw_all(struct sc_compare *compare, struct sc_predictor *predictor, struct sc_err *err)
{
	double *ratios = sc_xmalloc(compare->n * SC_COMPARE_DRAWS * sizeof(*ratios));
	double ms[SC_COMPARE_MAX];
	struct sc_rng rng;
	int rc = 0;

	sc_rng_init(&rng, 1);
	for (int d = 0; d < SC_COMPARE_DRAWS && rc == 0; d++) {
		rc = predict_all(compare, &rng, predictor, ms, err);
		for (size_t i = 0; i < compare->n && rc == 0; i++)
			ratios[i * SC_COMPARE_DRAWS + (size_t)d] = ms[i] / ms[0];
	}
	for (size_t i = 0; i < compare->n && rc == 0; i++)
		judge(&compare->at[i], ratios + i * SC_COMPARE_DRAWS);
	free(ratios);
	return rc;
}

int sc_compare_run(struct sc_compare *compare, struct sc_catalog *catalog, struct sc_err *err)
{
	struct sc_predictor *predictor = sc_predictor_create();
	int rc = 0;

	compare->error = (struct sc_model_error){.kernels = 0};
	for (size_t i = 0; i < compare->n && rc == 0; i++) {
		struct sc_compared *c = &compare->at[i];

		rc = predict(c, catalog, predictor, err);
		if (rc)
			break;
		c->ratio = c->prediction.iteration_ms / compare->at[0].prediction.iteration_ms;
		widen(&compare->error, c);
	}
	if (rc == 0)
		rc = draw_all(compare, predictor, err);
	sc_predictor_destroy(predictor);
	return rc;
}
