/* Computes floors of all candidates, memory first, in blocks that come in random order: the rows
 * that there was time for are like the rest. */
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/rng.h"
#include "base/search.h"
#include "study/search/search_priv.h"

/* Rows of a block lie side by side, share what a thread remembers and are judged by those that are
 * like them; of a batch of floors, at first and most. */
enum { BLOCK = 32, MOST_SIDE = 4096, FIRST_ROWS = 512, MOST_ROWS = 16384 };
#define FLOORS_FRAC 0.75 /* of a limit of time; what is left is for simulations */

/* Adds to `fits`, whose chunks stay where they are. */
static uint32_t add_fit(struct sc_searching *s, const struct sc_search_fit *fit)
{
	struct sc_search_result *out = s->out;
	const uint32_t n = (uint32_t)out->n_fits++;

	if (n % SC_SEARCH_CHUNK == 0)
		out->fits[n / SC_SEARCH_CHUNK] =
			sc_arena_alloc(s->arena, SC_SEARCH_CHUNK * sizeof(*fit));
	*sc_search_fit_of(out, n) = *fit;
	return n;
}

struct sc_search_row sc_search_refuse(struct sc_searching *s, const char *error)
{
	return (struct sc_search_row){.state = SC_SEARCH_REFUSED,
				      .at = sc_intern_add(&s->errors, error)};
}

bool sc_search_fits(const struct sc_searching *s, const struct sc_outcome *outcome)
{
	return outcome->code == SC_OK && outcome->fits &&
	       outcome->memory_total_gib <= outcome->capacity_gib * (1 - s->search->memory_margin);
}

struct sc_search_row sc_search_judge(struct sc_searching *s, const struct sc_outcome *outcome,
				     size_t row)
{
	const double gib = outcome->memory_total_gib, capacity = outcome->capacity_gib;
	struct sc_search_fit fit = {.capacity_gib = capacity};
	struct sc_search_row made = {.number = gib,
				     .at = s->large,
				     .state = SC_SEARCH_TOO_LARGE,
				     .is_least = outcome->memory_is_least};

	if (outcome->code != SC_OK)
		return sc_search_refuse(s, outcome->error);
	if (sc_search_fits(s, outcome)) {
		fit.memory_gib = gib;
		fit.factor[0] = sc_search_factor(s, row, 0);
		fit.factor[1] = sc_search_factor(s, row, 1);
		made.state = SC_SEARCH_LEFT;
		made.number = outcome->iteration_ms;
		made.at = add_fit(s, &fit);
		s->fits = s->fits || !made.is_least;
	} else if (s->out->n_fits == 0 ||
		   SC_ORDER(sc_search_fit_of(s->out, s->large)->capacity_gib, capacity) != 0) {
		made.at = s->large = add_fit(s, &fit);
	}
	return made;
}

/* The time that no row goes below, its FLOPs at peak: GPU-ms a sample. 0: rows differ in what
 * decides it. */
double sc_search_least_gpu_ms(const struct sc_searching *s)
{
	static const char SAME[] = "gpus training.global_batch training.micro_batch "
				   "training.recompute training.cuda_graphs training.optimizer "
				   "training.offload.optimizer training.offload.activations";
	struct sc_predictor *predictor = sc_predictor_create();
	struct sc_prediction *p = sc_arena_calloc(s->arena, 1, sizeof(*p));
	struct sc_predict_opts opts;
	bool same = s->facts->n_kinds <= 1;

	sc_predict_opts_init(&opts);
	for (size_t i = 0; i < s->out->cases.n_cols && same; i++)
		same = strncmp(s->out->cases.header[i], "parallel.", strlen("parallel.")) == 0 ||
		       strstr(SAME, s->out->cases.header[i]);
	if (same && sc_predict(predictor, s->facts, &opts, p, NULL) == 0)
		p->iteration_ms *= (p->mfu_causal > 0 ? p->mfu_causal : p->mfu) *
				   (double)s->facts->config.gpus /
				   (double)s->facts->config.training.global_batch;
	sc_predictor_destroy(predictor);
	return p->iteration_ms;
}

/* Floors of some rows, whose order is changed. An order of passes that depends on times is left to
 * those that are simulated, unless something that fits must be known. */
static int judge_rows(struct sc_searching *s, size_t *rows, size_t n, bool least,
		      struct sc_err *err)
{
	struct sc_predict_opts opts;
	struct sc_sweep sweep = {.rows = rows, .opts = &opts, .floors = true};
	struct sc_arena_mark mark = sc_arena_mark(&s->scratch);
	struct sc_outcome *outcomes = sc_arena_calloc(&s->scratch, n, sizeof(*outcomes));
	int rc;

	sc_predict_opts_init(&opts);
	opts.memory_first = true;
	opts.memory_least = least;
	opts.margin_frac = s->search->memory_margin;
	rc = sc_search_screen(s, &opts, rows, &n, err);
	sweep.n_rows = n;
	rc = rc || n == 0 ? rc : sc_search_predict(s, &sweep, outcomes, err);
	for (size_t i = 0; i < n && rc == 0; i++)
		s->out->rows[rows[i]] = sc_search_judge(s, &outcomes[i], rows[i]);
	sc_arena_rewind(&s->scratch, mark);
	return rc;
}

static size_t block_rows(const struct sc_searching *s)
{
	const size_t all = s->out->cases.codes->n_side, n_side = all < MOST_SIDE ? all : MOST_SIDE;

	return (BLOCK + n_side - 1) / n_side * n_side;
}

/* Rows that there was no time to judge are left with a floor at peak; blocks come in any order, so
 * what there was time for is like the rest. Without one that fits there is no answer: the first is
 * found whatever the time. */
int sc_search_floors(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	const size_t n_rows = out->cases.n_rows, block = block_rows(s);
	const size_t n_blocks = (n_rows + block - 1) / block, n_most = MOST_ROWS / block;
	size_t *blocks = sc_xmalloc(n_blocks * sizeof(*blocks)), done = 0, n_now;
	size_t *rows = sc_xmalloc(MOST_ROWS * sizeof(*rows)), most = FIRST_ROWS / block;
	struct sc_progress *progress =
		s->search->begin_progress
			? s->search->begin_progress(s->search->ctx, "floors", n_rows)
			: NULL;
	bool over = sc_search_is_over(s, 1);
	struct sc_rng rng;
	int rc = 0;

	most += !most;
	sc_rng_init(&rng, 1);
	for (size_t i = 0, to; i < n_blocks; i++) {
		to = sc_rng_below(&rng, i + 1);
		blocks[i] = blocks[to];
		blocks[to] = i;
	}
	out->fits = sc_arena_alloc(s->arena,
				   (n_rows / SC_SEARCH_CHUNK + 1) * sizeof(struct sc_search_fit *));
	for (size_t row = 0; row < n_rows; row++)
		out->rows[row] =
			(struct sc_search_row){.state = SC_SEARCH_LEFT, .at = SC_SEARCH_NONE};
	for (; done < n_blocks && rc == 0 && !(over && s->fits); done += n_now) {
		const double begin_s = sc_search_s(s);
		size_t n = 0;

		n_now = over ? 1 : n_blocks - done < most ? n_blocks - done : most;
		for (size_t i = 0, row; i < n_now; i++)
			for (row = blocks[done + i] * block;
			     row < n_rows && row / block == blocks[done + i]; row++)
				rows[n++] = row;
		rc = judge_rows(s, rows, n, !over, err);
		sc_progress_add(progress, n_now * block);
		over = sc_search_is_over(s, FLOORS_FRAC);
		if (2 * most <= n_most && sc_search_s(s) - begin_s < SC_SEARCH_SOON_S)
			most *= 2;
	}
	sc_progress_destroy(progress);
	free(blocks);
	free(rows);
	return rc;
}
