/* Rows of a measured table by the profiles as they are shipped: what `validate --kind` compares. */
#include <math.h>
#include <string.h>

#include "models/fit/fit_priv.h"
#include "models/op_model.h"

struct guesser {
	struct sc_fit_table table;
	struct sc_fit_set set; /* of one row; devices are kept */
	struct sc_fabric_profile profile;
};

static int guess_row(struct guesser *g, const struct sc_fit_row *row, struct sc_fit_guess *out)
{
	const struct sc_device *device = g->set.device[row->device];
	struct sc_request *request = &g->set.requests[row->request];
	double spread_frac = 0;
	struct sc_op_time time;
	struct sc_fabric fabric;
	struct sc_cost cost;
	int rc = 0;

	out->time_us = 0;
	switch (g->table.opts->kind) {
	case SC_FIT_COLLECTIVE:
		request->fabric_profile = g->profile;
		rc = sc_fabric_from_request(request, &fabric, g->table.err);
		if (rc)
			return rc;
		fabric.asked[row->op[0].u.collective.kind] = row->only;
		cost = sc_collective_cost(&fabric, &row->op[0].u.collective, &row->span, NULL);
		out->time_us = sc_cost_alone_us(&cost);
		spread_frac = g->profile.spread_frac;
		break;
	case SC_FIT_HOST:
		out->time_us = row->dim[0] * device->host.launch_us;
		spread_frac = device->host.spread_frac;
		break;
	default:
		for (unsigned i = 0; i < row->n_ops; i++) {
			sc_op_model_get(row->op[i].kind)->time(device, &row->op[i], &time);
			out->time_us += time.total_us;
			spread_frac = fmax(spread_frac, time.spread_frac);
		}
	}
	out->low_us = out->time_us * exp(-SC_Z_CENTRAL_80 * spread_frac);
	out->high_us = out->time_us * exp(SC_Z_CENTRAL_80 * spread_frac);
	out->measured_us = row->time_us;
	out->warning = row->warning;
	return rc;
}

/* Rows of a GPU that no profile is of cannot be predicted, those that do not say theirs neither. */
static bool has_device(struct guesser *g, const char *id, struct sc_fit_guess *out)
{
	struct sc_arena_mark mark = sc_arena_mark(g->table.arena);
	struct sc_err err = {.code = SC_OK};
	struct sc_device device;
	bool is_known;

	for (size_t i = 0; i < g->set.n_devices; i++)
		if (strcmp(g->set.device[i]->id, id) == 0)
			return true;
	is_known = sc_device_load(id, g->table.arena, &device, &err) == 0;
	sc_arena_rewind(g->table.arena, mark);
	if (!is_known)
		out->skipped = sc_arena_strdup(g->table.arena, err.text);
	return is_known;
}

int sc_fit_guess_rows(const struct sc_fit_opts *opts, const size_t *rows, size_t n,
		      struct sc_arena *arena, struct sc_fit_guess *out, struct sc_err *err)
{
	struct sc_fit_row row;
	struct guesser g = {.set.rows = &row};
	struct sc_fit_set *set = &g.set;
	int device = sc_csv_column(opts->table, "device");
	int rc = sc_fit_table_init(opts, arena, &g.table, err);

	if (rc == 0 && device < 0)
		rc = sc_err_at(err, SC_EFORMAT, opts->table->file, 1, 0,
			       "no column \"device\"; --kind %s needs it",
			       sc_fit_kind_names[opts->kind]);
	if (rc == 0)
		rc = sc_fabric_profile_load("default", arena, &g.profile, err);
	set->requests = sc_arena_calloc(arena, 1, sizeof(*set->requests));
	for (size_t i = 0; i < n && rc == 0; i++) {
		bool taken;

		out[i] = (struct sc_fit_guess){.skipped = NULL};
		g.table.row = rows[i];
		if (!has_device(&g, sc_csv_cell(opts->table, rows[i], (size_t)device), &out[i]))
			continue;
		set->n_sources = set->n_origins = set->n_requests = 0;
		set->n_empty = set->n_forced = set->n_bound = 0;
		rc = sc_fit_row_read(&g.table, set, &taken);
		if (rc == 0 && taken)
			rc = guess_row(&g, &row, &out[i]);
		else if (rc == 0)
			out[i].skipped =
				set->n_empty ? "time_us is empty"
				: set->n_bound
					? "waiting may be in its time (quality bound)"
					: "its algorithm was forced, and is not one of the model's";
	}
	return rc;
}
