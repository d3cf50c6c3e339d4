/* Rows of a measured table by the profiles as they are shipped: what `validate --kind` compares. */
#include <math.h>
#include <string.h>

#include "models/fit_priv.h"
#include "models/op_model.h"

struct guesser {
	struct sc_fit_table table;
	struct sc_fit_set set; /* of one row; devices are kept */
	struct sc_fabric_profile profile;
};

static double op_us(const struct sc_device *device, const struct sc_fit_row *row,
		    double *spread_frac)
{
	double us = 0;

	for (unsigned i = 0; i < row->n_ops; i++) {
		struct sc_op_time time;

		sc_op_model_get(row->op[i].kind)->time(device, &row->op[i], &time);
		us += time.total_us;
		*spread_frac = fmax(*spread_frac, time.spread_frac);
	}
	return us;
}

static int collective_us(struct guesser *g, const struct sc_fit_row *row, double *us)
{
	struct sc_request *request = &g->set.requests[row->fabric];
	struct sc_fabric fabric;
	struct sc_cost cost;
	int rc;

	request->fabric_profile = g->profile;
	rc = sc_fabric_from_request(request, &fabric, g->table.err);
	if (rc)
		return rc;
	fabric.asked[row->op[0].u.collective.kind] = row->only;
	cost = sc_collective_cost(&fabric, &row->op[0].u.collective, &row->span, NULL);
	*us = sc_cost_alone_us(&cost);
	return 0;
}

static int guess_row(struct guesser *g, const struct sc_fit_row *row, struct sc_fit_guess *out)
{
	const struct sc_device *device = g->set.device[row->device];
	double spread_frac = 0;
	int rc = 0;

	if (g->table.opts->kind == SC_FIT_COLLECTIVE) {
		spread_frac = g->profile.spread_frac;
		rc = collective_us(g, row, &out->time_us);
	} else if (g->table.opts->kind == SC_FIT_HOST) {
		spread_frac = device->host.spread_frac;
		out->time_us = row->launches * device->host.launch_us;
	} else {
		out->time_us = op_us(device, row, &spread_frac);
	}
	out->low_us = out->time_us * exp(-SC_Z_CENTRAL_80 * spread_frac);
	out->high_us = out->time_us * exp(SC_Z_CENTRAL_80 * spread_frac);
	out->measured_us = row->time_us;
	out->warning = row->warning;
	return rc;
}

/* Rows of a GPU that no profile is of cannot be predicted, those that do not say theirs neither. */
static bool has_device(const struct sc_fit_table *t, struct sc_fit_guess *out)
{
	struct sc_arena_mark mark = sc_arena_mark(t->arena);
	struct sc_device device;
	struct sc_err err = {.code = SC_OK};
	bool is_known = sc_device_load(sc_fit_text(t, "device"), t->arena, &device, &err) == 0;

	sc_arena_rewind(t->arena, mark);
	if (!is_known)
		out->skipped = sc_arena_strdup(t->arena, err.text);
	return is_known;
}

static bool same_device(const struct guesser *g)
{
	const char *id = sc_fit_text(&g->table, "device");

	for (size_t i = 0; i < g->set.n_devices; i++)
		if (strcmp(g->set.device[i]->id, id) == 0)
			return true;
	return false;
}

static int guess(struct guesser *g, struct sc_fit_guess *out)
{
	struct sc_fit_set *set = &g->set;
	bool taken;
	int rc;

	*out = (struct sc_fit_guess){.skipped = NULL};
	if (!same_device(g) && !has_device(&g->table, out))
		return 0;
	set->n_sources = set->n_origins = set->n_requests = 0;
	set->n_empty = set->n_forced = set->n_bound = 0;
	rc = sc_fit_row_read(&g->table, set, &taken);
	if (rc)
		return rc;
	if (taken)
		return guess_row(g, &set->rows[0], out);
	out->skipped = set->n_empty   ? "time_us is empty"
		       : set->n_bound ? "waiting may be in its time (quality bound)"
				      : "its algorithm was forced, and is not one of the model's";
	return 0;
}

int sc_fit_guess_rows(const struct sc_fit_opts *opts, const size_t *rows, size_t n,
		      struct sc_arena *arena, struct sc_fit_guess *out, struct sc_err *err)
{
	struct sc_fit_row row;
	struct guesser g = {
		.table = {.csv = opts->table, .opts = opts, .arena = arena, .err = err}};
	int rc = sc_fabric_profile_load("default", arena, &g.profile, err);

	g.set.rows = &row;
	g.set.dim_names = sc_fit_dims[opts->kind];
	g.set.requests = sc_arena_calloc(arena, 1, sizeof(*g.set.requests));
	if (rc == 0 && sc_fit_column(&g.table, "device") < 0)
		rc = sc_fit_no_column(&g.table, "device");
	if (rc == 0 && sc_fit_column(&g.table, "time_us") < 0)
		rc = sc_fit_no_column(&g.table, "time_us");
	for (size_t i = 0; i < n && rc == 0; i++) {
		g.table.row = rows[i];
		rc = guess(&g, &out[i]);
	}
	return rc;
}
