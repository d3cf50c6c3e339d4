/* What a time is worth: every objective is the time times what the GPUs of a row cost. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "study/search/search_priv.h"

const char *const sc_search_objective_names[] = {"time", "throughput", "cost", "energy", NULL};
const char *const sc_search_state_names[] = {"refused", "too_large", "left", "pruned", "simulated"};

const char *sc_search_unit(const struct sc_search *search, enum sc_search_objective objective)
{
	static const char *const of_step[] = {"ms", "GPU-ms a sample", "USD", "kJ"};
	static const char *const of_run[] = {"h", "GPU-ms a sample", "USD", "kWh"};

	return (search->tokens > 0 ? of_run : of_step)[objective];
}

/* What the rows of one device share. */
struct device {
	const char *text, *id; /* as the rows name it; its own name */
	double usd_per_hour, watts;
};

const char *sc_search_cell(const struct sc_search_result *result, size_t row, const char *path)
{
	int column = sc_csv_column(&result->cases, path);

	return column < 0 ? NULL : sc_csv_cell(&result->cases, row, (size_t)column);
}

static double number_of(const struct sc_searching *s, size_t row, const char *path, double base)
{
	const char *text = sc_search_cell(s->out, row, path);
	int64_t n;

	return text && sc_parse_int(text, &n) ? (double)n : base;
}

static bool wants(const struct sc_search *search, enum sc_search_objective objective)
{
	return search->objective[0] == objective ||
	       (search->pareto && search->objective[1] == objective);
}

/* `text`: a value of cluster.gpu, or NULL: the base's. */
static int load_device(const struct sc_searching *s, const char *text, struct device *out,
		       struct sc_err *err)
{
	const struct sc_search *search = s->search;
	struct sc_request *request = sc_arena_calloc(s->arena, 1, sizeof(*request));
	struct sc_config config = s->facts->config;
	int rc = 0;

	*out = (struct device){.text = text, .usd_per_hour = -1};
	if (text) {
		config.cluster.gpu = text;
		rc = sc_config_resolve(&config, s->catalog, search->base->file, request, err);
	} else {
		*request = *s->facts;
	}
	if (rc)
		return rc;
	out->id = sc_arena_strdup(s->arena, request->device.id);
	out->watts = request->device.tdp_w;
	if (!text)
		out->usd_per_hour = request->config.cluster.price_usd_gpu_hour;
	for (size_t i = 0; i < search->n_prices; i++)
		if (strcmp(search->prices[i].device, out->id) == 0)
			out->usd_per_hour = search->prices[i].usd_per_hour;
	if (wants(search, SC_SEARCH_COST) && out->usd_per_hour < 0)
		return sc_err_set(err, SC_EUSAGE,
				  "search: what does a %s cost? --price %s=USD_PER_HOUR, or "
				  "cluster.price_usd_gpu_hour",
				  out->id, out->id);
	if (wants(search, SC_SEARCH_ENERGY) && !(out->watts > 0))
		return sc_err_set(err, SC_EUNSUPPORTED, "search: the profile of %s has no tdp_w",
				  out->id);
	return 0;
}

/* Iterations that a row is worth: those of the run, or of the samples of one. */
static double iterations(const struct sc_searching *s, size_t row)
{
	const struct sc_config *base = &s->facts->config;
	double one = (double)base->training.global_batch;
	double batch = number_of(s, row, "training.global_batch", one);
	double seq = number_of(s, row, "model.seq", (double)base->model.seq);

	return s->search->tokens > 0 ? s->search->tokens / (batch * seq) : one / batch;
}

static double factor_of(const struct sc_searching *s, size_t row,
			enum sc_search_objective objective, const struct device *device)
{
	const struct sc_config *base = &s->facts->config;
	double batch = (double)base->training.global_batch, n = iterations(s, row), gpus;
	bool run = s->search->tokens > 0;

	gpus = number_of(s, row, "gpus", (double)base->gpus);
	switch (objective) {
	case SC_SEARCH_THROUGHPUT:
		return gpus / number_of(s, row, "training.global_batch", batch);
	case SC_SEARCH_COST:
		return gpus * n * device->usd_per_hour / SC_MS_PER_HOUR;
	case SC_SEARCH_ENERGY:
		return gpus * n * device->watts /
		       (run ? SC_W_PER_KW * SC_MS_PER_HOUR : SC_W_MS_PER_KJ);
	case SC_SEARCH_TIME:
	case SC_SEARCH_N_OBJECTIVES:
		break;
	}
	return run ? n / SC_MS_PER_HOUR : n;
}

int sc_search_factors(struct sc_searching *s, struct sc_err *err)
{
	struct device device = {.text = NULL};
	bool loaded = false;

	for (size_t row = 0; row < s->out->cases.n_rows; row++) {
		const char *text = sc_search_cell(s->out, row, "cluster.gpu");
		int rc = 0;

		if (!loaded || (text && strcmp(text, device.text) != 0))
			rc = load_device(s, text, &device, err);
		if (rc)
			return rc;
		loaded = true;
		for (int o = 0; o < 2; o++)
			s->out->at[row].factor[o] =
				factor_of(s, row, s->search->objective[o], &device);
	}
	return 0;
}
