/* Values of objectives: each is the time times what the GPUs of a row cost. Values of keys are read
 * once, because a search looks at those of millions of rows. */
#include "base/num.h"
#include "base/units.h"
#include "study/search/search_priv.h"

double sc_search_number(const struct sc_searching *s, size_t row, int which)
{
	const struct sc_search_number *number = &s->numbers[which];

	return number->at[number->column < 0
				  ? 0
				  : sc_csv_digit(&s->out->cases, row, (size_t)number->column)];
}

static bool wants(const struct sc_search *search, enum sc_search_objective objective)
{
	return search->objective[0] == objective ||
	       (search->pareto && search->objective[1] == objective);
}

/* Reads the price and power of a value of cluster.gpu; of text NULL, the base's. */
static int load_device(struct sc_searching *s, const char *text, size_t i, struct sc_err *err)
{
	const struct sc_search *search = s->search;
	struct sc_request *request = s->facts;
	double usd_per_hour;

	if (text) {
		struct sc_config config = s->facts->config;
		int rc;

		config.cluster.gpu = text;
		request = sc_arena_calloc(s->arena, 1, sizeof(*request));
		rc = sc_config_resolve(&config, s->catalog, search->base->file, request, err);
		if (rc)
			return rc;
	}
	usd_per_hour = sc_run_price(&search->size, request->device.id,
				    text ? -1 : request->config.cluster.price_usd_gpu_hour);
	if ((wants(search, SC_SEARCH_COST) || search->size.n_prices) && usd_per_hour < 0)
		return sc_err_set(err, SC_EUSAGE,
				  "search: what does a %s cost? --price %s=USD_PER_HOUR, or "
				  "cluster.price_usd_gpu_hour",
				  request->device.id, request->device.id);
	if (wants(search, SC_SEARCH_ENERGY) && !(request->device.tdp_w > 0))
		return sc_err_set(err, SC_EUNSUPPORTED, "search: the profile of %s has no tdp_w",
				  request->device.id);
	s->numbers[SC_SEARCH_USD].at[i] = usd_per_hour;
	s->numbers[SC_SEARCH_WATTS].at[i] = request->device.tdp_w;
	return 0;
}

/* The factor by which an objective multiplies a row's time. */
double sc_search_factor(const struct sc_searching *s, size_t row, int objective)
{
	const double one = (double)s->facts->config.training.global_batch;
	const double batch = sc_search_number(s, row, SC_SEARCH_BATCH);
	const double seq = sc_search_number(s, row, SC_SEARCH_SEQ);
	const double gpus = sc_search_number(s, row, SC_SEARCH_GPUS);
	/* The iterations that a row is worth are those of the run, or of the samples of one. */
	double n = s->search->size.tokens > 0
			   ? s->search->size.tokens / (batch * seq)
			   : (s->search->size.samples > 0 ? s->search->size.samples : one) / batch;
	bool run = sc_search_is_run(s->search);

	switch (s->search->objective[objective]) {
	case SC_SEARCH_THROUGHPUT:
		return gpus / batch;
	case SC_SEARCH_COST:
		return gpus * n * sc_search_number(s, row, SC_SEARCH_USD) / SC_MS_PER_HOUR;
	case SC_SEARCH_ENERGY:
		return gpus * n * sc_search_number(s, row, SC_SEARCH_WATTS) /
		       (run ? SC_W_PER_KW * SC_MS_PER_HOUR : SC_W_MS_PER_KJ);
	case SC_SEARCH_TIME:
	case SC_SEARCH_N_OBJECTIVES:
		break;
	}
	return run ? n / SC_MS_PER_HOUR : n;
}

/* A text that is no number stays the base's; its rows are refused. */
int sc_search_read_values(struct sc_searching *s, struct sc_err *err)
{
	static const char *const PATHS[] = {"gpus", "training.global_batch", "model.seq",
					    "cluster.gpu", "cluster.gpu"};
	const struct sc_config *c = &s->facts->config;
	const int64_t base[] = {c->gpus, c->training.global_batch, c->model.seq, 0, 0};
	const struct sc_csv_digit *digit = NULL;
	int rc = 0;

	for (int k = 0; k < SC_SEARCH_N_NUMBERS; k++) {
		struct sc_search_number *number = &s->numbers[k];

		number->column = sc_csv_column(&s->out->cases, PATHS[k]);
		digit = number->column < 0 ? NULL : &s->out->cases.codes->column[number->column];
		number->at = sc_arena_calloc(s->arena, digit ? digit->n : 1, sizeof(double));
		for (size_t i = 0; i < (digit ? digit->n : 1); i++) {
			int64_t value = base[k];

			number->at[i] = digit && sc_parse_int(digit->values[i], &value)
						? (double)value
						: (double)base[k];
		}
	}
	for (size_t i = 0; i < (digit ? digit->n : 1) && rc == 0; i++)
		rc = load_device(s, digit ? digit->values[i] : NULL, i, err);
	return rc;
}
