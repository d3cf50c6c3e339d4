/* A sweep as three segments over x = log2 of the bytes (Lin et al., "Towards Universal Performance Modeling for Machine Learning
 * Training on Multi-GPU Platforms", arXiv:2404.12674): the overhead alone, a logistic curve of the logarithm of the
 * bandwidth, the most bandwidth and the overhead. It jumps between the latter: who uses it keeps times rising. */
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>

#include "base/stats.h"
#include "base/units.h"
#include "models/fit/fit_priv.h"

enum { RISE, MIDDLE, STEEPNESS, LOW, N_PARAMS, MIN_POINTS = 8, MAX_STEPS = 200, FLAT_POINTS = 5 };
#define LATENCY_CHANGE 0.1 /* of neighbours' times, that ends the overhead */
#define NEAR_PEAK 0.95
#define SMALLEST_GBPS 4e-4 /* added before logarithms are taken */
#define TOLERANCE 1e-10

struct sweep {
	const double *bytes, *us;
	size_t first, n; /* of the middle */
};

static double gbps_at(const struct sweep *s, size_t i)
{
	return s->bytes[i] / s->us[i] / SC_BYTES_US_PER_GBPS;
}

static double logistic(const double *p, double x)
{
	return p[RISE] / (1 + exp(-p[STEEPNESS] * (x - p[MIDDLE]))) + p[LOW];
}

static int residuals(const gsl_vector *u, void *data, gsl_vector *out)
{
	const struct sweep *s = data;

	for (size_t i = 0; i < s->n; i++) {
		double y = log10(gbps_at(s, s->first + i) + SMALLEST_GBPS);

		gsl_vector_set(out, i, logistic(u->data, log2(s->bytes[s->first + i])) - y);
	}
	return GSL_SUCCESS;
}

static bool fit_middle(struct sweep *s, double *params)
{
	gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
	gsl_multifit_nlinear_workspace *w =
		gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, s->n, N_PARAMS);
	gsl_multifit_nlinear_fdf fdf = {.f = residuals, .n = s->n, .p = N_PARAMS, .params = s};
	gsl_vector_view start = gsl_vector_view_array(params, N_PARAMS);
	int info, rc;

	if (!w)
		return false;
	rc = gsl_multifit_nlinear_init(&start.vector, &fdf, w);
	if (rc == GSL_SUCCESS)
		rc = gsl_multifit_nlinear_driver(MAX_STEPS, TOLERANCE, 0, 0, NULL, NULL, &info, w);
	for (size_t i = 0; i < N_PARAMS; i++)
		params[i] = gsl_vector_get(gsl_multifit_nlinear_position(w), i);
	gsl_multifit_nlinear_free(w);
	return (rc == GSL_SUCCESS || rc == GSL_EMAXITER || rc == GSL_ENOPROG) &&
	       isfinite(params[RISE] + params[MIDDLE] + params[STEEPNESS] + params[LOW]);
}

/* The last size that the overhead decides. */
static size_t end_of_overhead(const struct sweep *s, size_t n)
{
	for (size_t i = FLAT_POINTS; i + 1 < n; i++)
		if (fabs(s->us[i + 1] - s->us[i - 1]) / (2 * s->us[i]) > LATENCY_CHANGE)
			return i - 1;
	return FLAT_POINTS - 1;
}

/* The last size of the curve: two beyond what is far from the peak. */
static size_t end_of_curve(const struct sweep *s, size_t n, double peak)
{
	size_t last = 0;

	for (size_t i = 0; i < n; i++)
		if (gbps_at(s, i) < NEAR_PEAK * peak)
			last = i;
	return last + 2 < n ? last + 2 : n - 1;
}

bool sc_fit_segments(const double *bytes, const double *us, size_t n, struct sc_fit_segments *out)
{
	struct sweep s = {.bytes = bytes, .us = us};
	double peak = 0, params[N_PARAMS];
	size_t low, last;

	if (n < MIN_POINTS)
		return false;
	for (size_t i = 0; i < n; i++)
		peak = fmax(peak, gbps_at(&s, i));
	low = end_of_overhead(&s, n);
	s.first = low + 1;
	last = end_of_curve(&s, n, peak);
	if (last < s.first + N_PARAMS)
		return false;
	s.n = last - s.first + 1;
	params[LOW] = log10(gbps_at(&s, s.first) + SMALLEST_GBPS);
	params[RISE] = log10(peak) - params[LOW];
	params[MIDDLE] = log2(bytes[s.first + s.n / 2]);
	params[STEEPNESS] = 1;
	if (!fit_middle(&s, params))
		return false;
	*out = (struct sc_fit_segments){.low_bytes = bytes[low],
					.high_bytes = bytes[last],
					.overhead_us = us[low - 1],
					.most_gbps = peak,
					.rise = params[RISE],
					.middle = params[MIDDLE],
					.steepness = params[STEEPNESS],
					.low = params[LOW]};
	return true;
}

double sc_fit_segments_us(const struct sc_fit_segments *s, double bytes)
{
	const double params[N_PARAMS] = {
		[RISE] = s->rise, [MIDDLE] = s->middle, [STEEPNESS] = s->steepness, [LOW] = s->low};

	if (bytes <= s->low_bytes)
		return s->overhead_us;
	if (bytes > s->high_bytes)
		return sc_bytes_us(bytes, s->most_gbps) + s->overhead_us;
	return sc_bytes_us(bytes, pow(10, logistic(params, log2(bytes))));
}
