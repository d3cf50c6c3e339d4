/* Finds floors of all schedules and parameters; simulates until none is below the second best. */
#include "study/evaluate/evaluate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/vec.h"
#include "core/config/config_schedule.h"

enum { MAX_CHUNKS = 8, MAX_TEXT = 80 };

struct candidate {
	struct sc_parallel parallel; /* as it is asked for */
	char text[MAX_TEXT];
	double ms, memory; /* a floor until it is simulated; of the memory that there is */
	size_t at;
};
struct choosing {
	struct sc_evaluator *e;
	const char *file;
	struct sc_config config; /* with the schedule that is tried */
	SC_VEC(struct candidate) list;
	struct candidate best, second;
	struct sc_err why; /* the reason of the first that cannot run */
	size_t n;
};

static void name_candidate(const struct sc_parallel *par, struct candidate *out)
{
	const char *name = sc_enum_name(sc_schedule_names, (int)par->schedule);

	if (par->schedule == SC_SCHED_CHIMERA)
		snprintf(out->text, sizeof(out->text), "%s with %" PRId64 " replicas", name,
			 sc_schedule_replicas(par));
	else if (par->schedule == SC_SCHED_HANAYO)
		snprintf(out->text, sizeof(out->text), "%s with %" PRId64 " waves", name,
			 par->waves);
	else if (sc_schedule_chunks(par->schedule) == 0)
		snprintf(out->text, sizeof(out->text), "%s with %" PRId64 " virtual stages", name,
			 par->virtual_stages);
	else
		snprintf(out->text, sizeof(out->text), "%s", name);
}

static bool resolve(struct choosing *c)
{
	return sc_config_resolve(&c->config, c->e->catalog, c->file, &c->e->request, &c->why) == 0;
}

/* Adds the candidate at hand with its memory and its floor. */
static void try_one(struct choosing *c)
{
	struct candidate now = {.parallel = c->config.parallel, .at = c->list.n};

	if (!resolve(c) || sc_evaluate_floor(c->e, &c->why))
		return;
	now.ms = c->e->floor.iteration_ms;
	now.memory = sc_memory_fullness(&c->e->floor.memory);
	name_candidate(&c->e->request.config.parallel, &now);
	SC_VEC_PUSH(&c->list, now);
}

/* The values of a parameter: from `first` on, each `factor` times and `step` more than the one
 * before, or the one that is given. */
struct values {
	int64_t *key;
	int64_t first, factor, step, most;
};

static void try_each(struct choosing *c, struct values values)
{
	const int64_t given = *values.key;

	for (int64_t v = values.first; given == SC_NOT_GIVEN && v <= values.most;
	     v = v * values.factor + values.step) {
		*values.key = v;
		try_one(c);
	}
	if (given != SC_NOT_GIVEN)
		try_one(c);
	*values.key = given;
}

static void try_schedule(struct choosing *c, enum sc_schedule kind)
{
	struct sc_parallel *par = &c->config.parallel;
	int64_t chunks = c->config.model.layers / par->pp + 1;
	int64_t given = par->virtual_stages, own = sc_schedule_chunks(kind);

	chunks = chunks < MAX_CHUNKS ? chunks : MAX_CHUNKS;
	par->schedule = kind;
	if (kind == SC_SCHED_INTERLEAVED || kind == SC_SCHED_BREADTH_FIRST) {
		try_each(c, (struct values){&par->virtual_stages, 2, 1, 1, chunks});
		return;
	}
	par->virtual_stages = own == 1 ? 1 : SC_NOT_GIVEN;
	if (kind == SC_SCHED_CHIMERA)
		try_each(c, (struct values){&par->chimera_replicas, 2, 2, 0, par->pp});
	else if (kind == SC_SCHED_HANAYO)
		try_each(c, (struct values){&par->waves, 1, 2, 0, chunks / 2});
	else
		try_one(c);
	par->virtual_stages = given;
}

/* ---- simulating, the least floor first ---- */

static bool fits(const struct candidate *c)
{
	return c->memory <= 1;
}

/* A candidate that fits is never worse than one that does not; else less memory is better. */
static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	double of_x = fits(x) && fits(y) ? x->ms : x->memory;
	double of_y = fits(x) && fits(y) ? y->ms : y->memory;

	return 2 * SC_ORDER(of_x, of_y) + SC_ORDER(x->at, y->at);
}

static void candidate_take(struct choosing *c, const struct candidate *now)
{
	if (c->n == 0 || compare_candidates(now, &c->best) < 0) {
		c->second = c->best;
		c->best = *now;
	} else if (c->n == 1 || compare_candidates(now, &c->second) < 0) {
		c->second = *now;
	}
	c->n++;
}

/* Once a floor is above the second best, no other can be the best or the second best. Where nothing
 * fits, memory decides. */
static void simulate(struct choosing *c)
{
	qsort(c->list.at, c->list.n, sizeof(*c->list.at), compare_candidates);
	for (size_t i = 0; i < c->list.n; i++) {
		struct candidate *now = &c->list.at[i];

		if (c->n > 1 && (!fits(now) || now->ms > c->second.ms))
			return;
		c->config.parallel = now->parallel;
		if (fits(now)) {
			if (!resolve(c) || sc_evaluate_request(c->e, &c->why))
				continue;
			now->ms = c->e->prediction.iteration_ms;
		}
		candidate_take(c, now);
	}
}

static void tell(const struct choosing *c, struct sc_warnings *warnings)
{
	if (c->n < 2)
		sc_warn(warnings, "parallel.schedule auto: %s is the only one that can run",
			c->best.text);
	else if (!fits(&c->second))
		sc_warn(warnings, "parallel.schedule auto: %s; %s", c->best.text,
			fits(&c->best) ? "no other fits the memory"
				       : "none fits, and it needs the least memory");
	else
		sc_warn(warnings, "parallel.schedule auto: %s; %s would take %.1f %% longer",
			c->best.text, c->second.text, 100 * (c->second.ms / c->best.ms - 1));
}

int sc_evaluate_schedules(struct sc_evaluator *e, const struct sc_config *config, const char *file,
			  struct sc_err *err)
{
	struct choosing *c = sc_xcalloc(1, sizeof(*c));
	const int among = e->request.config.parallel.auto_among;
	const bool keep_graph = e->opts.keep_graph;
	int rc;

	c->e = e;
	c->file = file;
	c->config = *config;
	c->config.parallel.pp = e->request.config.parallel.pp;
	e->opts.keep_graph = false;
	/* Schedules are those that the request, else the software, names, with all parameters. */
	for (int kind = 0; kind < SC_SCHED_FILE; kind++)
		if (among < SC_FLAG || among & (SC_FLAG << kind))
			try_schedule(c, (enum sc_schedule)kind);
	if (c->list.n > 0)
		simulate(c);
	e->opts.keep_graph = keep_graph;
	if (c->n == 0) {
		rc = sc_err_set(err, c->why.code, "parallel.schedule auto: none can run; %s",
				c->why.text);
	} else {
		c->config.parallel = c->best.parallel;
		rc = sc_config_resolve(&c->config, e->catalog, file, &e->request, err);
		e->request.config.parallel.schedule_chosen = true;
		tell(c, &e->request.warnings);
	}
	SC_VEC_RELEASE(&c->list);
	free(c);
	return rc;
}
