/* Most candidates cannot be or do not fit, and neither follows from all keys. Candidates that are
 * alike in the keys that decide it share the verdict on one of them: first those that cannot be,
 * then those that are too large. */
#include <string.h>

#include "core/embedding/embedding.h"
#include "study/search/search_priv.h"

/* A step goes element by element, and no layer has kernels of its own, in any split. */
static bool is_plain(const struct sc_config *config)
{
	const enum sc_optimizer optimizer = config->training.optimizer;

	return (optimizer == SC_OPT_ADAM || optimizer == SC_OPT_SGD) &&
	       !config->model.layers_pattern && config->model.family != SC_DIT;
}

/* Keys whose values can be whatever the split is, where all is plain; and of them those that leave
 * the memory as it is. All others decide both: a key that the config's checks come to read goes
 * from here. */
static const struct idle {
	const char *path;
	bool is_in_memory;
} IDLE[] = {{"parallel.tp_overlap", false},
	    {"training.cuda_graphs", false},
	    {"training.attention", true},
	    {"training.optimizer", true}};
enum { N_IDLE = sizeof(IDLE) / sizeof(IDLE[0]) };

/* A row's code without the digits of the keys that decide nothing. */
struct likeness {
	const struct sc_csv_digit *digit[N_IDLE];
	size_t n;
};

/* Says whether no value of a key decides anything; one that cannot be read refuses its rows. */
static bool is_idle(struct sc_searching *s, const struct idle *key,
		    const struct sc_csv_digit *digit)
{
	bool out = true;

	for (size_t i = 0; i < digit->n && out; i++) {
		const struct sc_setting setting = {key->path, digit->values[i], "search"};
		struct sc_config config = s->facts->config;

		out = sc_config_set(&config, &setting, &s->scratch, NULL) == 0 && is_plain(&config);
	}
	return out;
}

/* [0]: of who cannot be; [1]: of who is too large. None where rows are of other models than the
 * base. */
static void find_likeness(struct sc_searching *s, struct likeness out[2])
{
	const struct sc_csv *cases = &s->out->cases;

	for (size_t i = 0; i < cases->n_cols; i++)
		if (strncmp(cases->header[i], "model", strlen("model")) == 0)
			return;
	for (size_t k = 0; k < N_IDLE; k++) {
		const int column = sc_csv_column(cases, IDLE[k].path);
		const struct sc_csv_digit *digit =
			column < 0 ? NULL : &cases->codes->column[column];

		if (!digit || digit->n < 2 || !is_idle(s, &IDLE[k], digit))
			continue;
		out[0].digit[out[0].n++] = digit;
		if (!IDLE[k].is_in_memory)
			out[1].digit[out[1].n++] = digit;
	}
}

/* Rows that are not judged, and of each whether its memory is known to fit. */
struct screen {
	struct sc_searching *s;
	const struct sc_predict_opts *opts;
	struct likeness like[2];
	size_t *rows, n;
	bool *fits;
};

static uint64_t row_code(const struct screen *sc, const struct likeness *of, size_t row)
{
	const uint64_t code = sc_csv_code(&sc->s->out->cases, row);
	uint64_t out = code;

	for (size_t i = 0; i < of->n; i++)
		out -= code / of->digit[i]->unit % of->digit[i]->n * of->digit[i]->unit;
	return out;
}

/* Predicts the floor of the first of each set of alike rows whose memory is not known; the others
 * take over its verdict, unless it fits. Rows that are judged now leave; the others stay in their
 * order. */
static int screen_by(struct screen *sc, const struct likeness *like, struct sc_err *err)
{
	struct sc_searching *s = sc->s;
	struct sc_intern codes = {0};
	uint32_t *id = sc_arena_calloc(&s->scratch, sc->n, sizeof(*id));
	size_t *first = sc_arena_calloc(&s->scratch, sc->n, sizeof(*first)), n_first = 0,
	       n_left = 0;
	struct sc_predict_opts opts = *sc->opts;
	struct sc_sweep sweep = {.rows = first, .opts = &opts, .floors = true};
	struct sc_outcome *outcomes;
	struct sc_search_row *made;
	int rc = 0;

	for (size_t i = 0; i < sc->n; i++) {
		const uint64_t code = row_code(sc, like, sc->rows[i]);

		if (sc->fits[i])
			continue;
		id[i] = sc_intern_add_n(&codes, (const char *)&code, sizeof(code));
		if (id[i] == n_first)
			first[n_first++] = sc->rows[i];
	}
	sc_intern_release(&codes);
	outcomes = sc_arena_calloc(&s->scratch, n_first, sizeof(*outcomes));
	made = sc_arena_calloc(&s->scratch, n_first, sizeof(*made));
	/* Memory that depends on times differs among alike rows: the least is theirs. */
	opts.memory_least = true;
	sweep.n_rows = n_first;
	rc = n_first ? sc_search_predict(s, &sweep, outcomes, err) : 0;
	for (size_t k = 0; k < n_first && rc == 0; k++)
		made[k] = !sc_search_fits(s, &outcomes[k]) || sc->opts->memory_least ||
					  !outcomes[k].memory_is_least
				  ? sc_search_judge(s, &outcomes[k], first[k])
				  : s->out->rows[first[k]];
	for (size_t i = 0; i < sc->n && rc == 0; i++) {
		const size_t row = sc->rows[i], of = id[i];
		bool fits = sc->fits[i];

		if (!fits &&
		    (outcomes[of].code != SC_OK ||
		     row_code(sc, &sc->like[1], row) == row_code(sc, &sc->like[1], first[of]))) {
			fits = sc_search_fits(s, &outcomes[of]);
			if (!fits || row == first[of])
				s->out->rows[row] = made[of];
		}
		if (sc_search_is_judged(&s->out->rows[row]))
			continue;
		sc->fits[n_left] = fits;
		sc->rows[n_left++] = row;
	}
	sc->n = n_left;
	return rc;
}

int sc_search_screen(struct sc_searching *s, const struct sc_predict_opts *opts, size_t *rows,
		     size_t *n, struct sc_err *err)
{
	struct screen sc = {.s = s, .opts = opts, .rows = rows, .n = *n};
	int rc = 0;

	sc.fits = sc_arena_calloc(&s->scratch, *n, sizeof(*sc.fits));
	find_likeness(s, sc.like);
	for (int k = 0; k < 2 && rc == 0; k++)
		if (sc.like[k].n > 0)
			rc = screen_by(&sc, &sc.like[k], err);
	*n = sc.n;
	return rc;
}
