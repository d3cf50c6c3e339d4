/* What a time is worth: every objective is the time times what the GPUs of a row cost. Values of keys are read once: a
 * search looks at those of millions of rows. */
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

/* A text that is no number stays the base's; its rows are refused. */
static void read_numbers(struct sc_searching *s)
{
	const struct sc_config *base = &s->facts->config;
	const struct {
		const char *path;
		int64_t base;
	} keys[] = {[SC_SEARCH_GPUS] = {"gpus", base->gpus},
		    [SC_SEARCH_BATCH] = {"training.global_batch", base->training.global_batch},
		    [SC_SEARCH_SEQ] = {"model.seq", base->model.seq}};

	for (int k = 0; k < SC_SEARCH_N_NUMBERS; k++) {
		const int column = sc_csv_column(&s->out->cases, keys[k].path);
		const struct sc_csv_digit *digit =
			column < 0 ? NULL : &s->out->cases.codes->column[column];
		const size_t n = digit ? digit->n : 1;

		s->numbers[k] = (struct sc_search_number){
			column, sc_arena_alloc(s->arena, n * sizeof(double))};
		for (size_t i = 0; i < n; i++) {
			int64_t value = keys[k].base;

			if (digit && !sc_parse_int(digit->values[i], &value))
				value = keys[k].base;
			s->numbers[k].at[i] = (double)value;
		}
	}
}

static bool wants(const struct sc_search *search, enum sc_search_objective objective)
{
	return search->objective[0] == objective ||
	       (search->pareto && search->objective[1] == objective);
}

/* `text`: a value of cluster.gpu, or NULL: the base's. */
static int load_device(const struct sc_searching *s, const char *text, struct sc_search_device *out,
		       struct sc_err *err)
{
	const struct sc_search *search = s->search;
	struct sc_request *request = sc_arena_calloc(s->arena, 1, sizeof(*request));
	struct sc_config config = s->facts->config;
	int rc = 0;

	*out = (struct sc_search_device){.usd_per_hour = -1};
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
	out->usd_per_hour = sc_run_price(&search->size, out->id,
					 text ? -1 : request->config.cluster.price_usd_gpu_hour);
	if ((wants(search, SC_SEARCH_COST) || search->size.n_prices) && out->usd_per_hour < 0)
		return sc_err_set(err, SC_EUSAGE,
				  "search: what does a %s cost? --price %s=USD_PER_HOUR, or "
				  "cluster.price_usd_gpu_hour",
				  out->id, out->id);
	if (wants(search, SC_SEARCH_ENERGY) && !(out->watts > 0))
		return sc_err_set(err, SC_EUNSUPPORTED, "search: the profile of %s has no tdp_w",
				  out->id);
	return 0;
}

/* What an objective makes of a row's time. */
double sc_search_factor(const struct sc_searching *s, size_t row, int objective)
{
	const struct sc_search_device *device =
		&s->devices[s->device_column < 0
				    ? 0
				    : sc_csv_digit(&s->out->cases, row, (size_t)s->device_column)];
	const double one = (double)s->facts->config.training.global_batch;
	const double batch = sc_search_number(s, row, SC_SEARCH_BATCH);
	const double seq = sc_search_number(s, row, SC_SEARCH_SEQ);
	const double gpus = sc_search_number(s, row, SC_SEARCH_GPUS);
	/* iterations that a row is worth: those of the run, or of the samples of one */
	double n = s->search->size.tokens > 0
			   ? s->search->size.tokens / (batch * seq)
			   : (s->search->size.samples > 0 ? s->search->size.samples : one) / batch;
	bool run = sc_search_is_run(s->search);

	switch (s->search->objective[objective]) {
	case SC_SEARCH_THROUGHPUT:
		return gpus / batch;
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

int sc_search_read_values(struct sc_searching *s, struct sc_err *err)
{
	const int column = sc_csv_column(&s->out->cases, "cluster.gpu");
	const struct sc_csv_digit *digit = column < 0 ? NULL : &s->out->cases.codes->column[column];
	int rc = 0;

	read_numbers(s);
	s->device_column = column;
	s->devices = sc_arena_calloc(s->arena, digit ? digit->n : 1, sizeof(*s->devices));
	for (size_t i = 0; i < (digit ? digit->n : 1) && rc == 0; i++)
		rc = load_device(s, digit ? digit->values[i] : NULL, &s->devices[i], err);
	return rc;
}
