/* Every schedule with every parameter, predicted one after another. */
#include "study/schedule/schedule_choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/config/config_schedule.h"

enum { MAX_CHUNKS = 8, MAX_TEXT = 80 };

struct candidate {
	char text[MAX_TEXT];
	double ms, memory; /* of the memory that there is */
};
struct choosing {
	const struct sc_schedule_ask *ask;
	struct sc_config config; /* with the schedule that is tried */
	struct sc_request request, *out;
	struct sc_prediction prediction;
	struct candidate best, second;
	struct sc_err why; /* the first that cannot run says so */
	size_t n;
};

/* Nothing that fits is worse than what does not; of those, the less memory. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->memory > 1 || b->memory > 1)
		return a->memory < b->memory;
	return a->ms < b->ms;
}

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

static void try_one(struct choosing *c)
{
	struct sc_predict_opts opts = *c->ask->opts;
	struct candidate now;

	opts.keep_graph = false;
	if (sc_config_resolve(&c->config, c->ask->catalog, c->ask->file, &c->request, &c->why) ||
	    sc_predict(c->ask->predictor, &c->request, &opts, &c->prediction, &c->why))
		return;
	now = (struct candidate){.ms = c->prediction.iteration_ms,
				 .memory = c->prediction.memory.total_gib /
					   c->prediction.memory.capacity_gib};
	name_candidate(&c->request.config.parallel, &now);
	if (c->n == 0 || is_better(&now, &c->best)) {
		c->second = c->best;
		c->best = now;
		*c->out = c->request;
	} else if (c->n == 1 || is_better(&now, &c->second)) {
		c->second = now;
	}
	c->n++;
}

/* The values of a parameter from `first` on, each `factor` times and `step` more than the one before, or the one
 * that is given. */
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

static void tell(const struct choosing *c)
{
	if (c->n < 2)
		sc_warn(&c->out->warnings,
			"parallel.schedule auto: %s is the only one that can run", c->best.text);
	else if (c->second.memory > 1)
		sc_warn(&c->out->warnings, "parallel.schedule auto: %s; %s", c->best.text,
			c->best.memory > 1 ? "none fits, and it needs the least memory"
					   : "no other fits the memory");
	else
		sc_warn(&c->out->warnings,
			"parallel.schedule auto: %s; %s would take %.1f %% longer", c->best.text,
			c->second.text, 100 * (c->second.ms / c->best.ms - 1));
}

int sc_resolve_chosen(const struct sc_schedule_ask *ask, struct sc_request *out, struct sc_err *err)
{
	struct choosing *c;
	int rc = sc_config_resolve(ask->config, ask->catalog, ask->file, out, err);

	if (rc || out->config.parallel.schedule != SC_SCHED_AUTO)
		return rc;
	c = sc_xcalloc(1, sizeof(*c));
	c->ask = ask;
	c->out = out;
	c->config = *ask->config;
	c->config.parallel.pp = out->config.parallel.pp;
	for (int kind = 0; kind < SC_SCHED_FILE; kind++)
		try_schedule(c, (enum sc_schedule)kind);
	if (c->n > 0) {
		out->config.parallel.schedule_chosen = true;
		tell(c);
	} else {
		rc = sc_err_set(err, c->why.code, "parallel.schedule auto: none can run; %s",
				c->why.text);
	}
	free(c);
	return rc;
}
