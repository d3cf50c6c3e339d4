/* Rows of a measured table: which are taken, and where their times come from. Rows of other devices, and those
 * that --where leaves out, are counted and passed over. */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/fnv.h"
#include "models/fit/fit_priv.h"
#include "models/op_model.h"

enum { MAX_DEVICES_SHOWN = 8 };

static const char *text_of(const struct sc_fit_table *t, const char *column)
{
	int col = sc_csv_column(&t->csv, column);

	return col < 0 ? "" : sc_csv_cell(&t->csv, t->row, (size_t)col);
}

bool sc_fit_takes_all(const struct sc_fit_opts *opts)
{
	const char *column = opts->kind == SC_FIT_COLLECTIVE ? "machine" : "device";

	return opts->leave_out && strcmp(opts->leave_out, column) == 0;
}

bool sc_fit_of_machines(const struct sc_fit_opts *opts)
{
	return opts->kind == SC_FIT_COLLECTIVE && sc_fit_takes_all(opts);
}

/* A table without the column is of the one device. */
static const char *device_of(const struct sc_fit_table *t)
{
	return sc_csv_column(&t->csv, "device") < 0 ? t->opts->device : text_of(t, "device");
}

static bool has_value(const struct sc_fit_table *t, const struct sc_fit_where *where)
{
	return fnmatch(where->value, text_of(t, where->column), 0) == 0;
}

/* A collective whose time may hold waiting for peers that were not recorded, as `export` marks it. Taken
 * where --where names the column. */
static bool is_bound(const struct sc_fit_table *t)
{
	if (t->opts->kind != SC_FIT_COLLECTIVE || strcmp(text_of(t, "quality"), "bound") != 0)
		return false;
	for (size_t i = 0; i < t->opts->n_where; i++)
		if (strcmp(t->opts->where[i].column, "quality") == 0)
			return false;
	return true;
}

static bool is_chosen(const struct sc_fit_table *t)
{
	if (!sc_fit_takes_all(t->opts) && strcmp(device_of(t), t->opts->device) != 0)
		return false;
	for (size_t i = 0; i < t->opts->n_where; i++)
		if (!has_value(t, &t->opts->where[i]))
			return false;
	return true;
}

/* The group of --leave-out or --hold-out; NULL: in none. */
static const char *group_of(const struct sc_fit_table *t)
{
	if (t->opts->leave_out)
		return text_of(t, t->opts->leave_out);
	for (size_t i = 0; i < t->opts->n_hold_out; i++)
		if (has_value(t, &t->opts->hold_out[i]))
			return "chosen";
	return NULL;
}

/* Of pairs those of which both times alone are known, on two streams that wait for nothing. */
static bool has_time(const struct sc_fit_table *t)
{
	const char *policy, *kind;

	if (!t->is_of_pairs)
		return *text_of(t, "time_us");
	policy = text_of(t, "policy");
	kind = text_of(t, "kind");
	return *text_of(t, "overlapped_us") && *text_of(t, "compute_us") &&
	       *text_of(t, "comm_us") &&
	       (strcmp(policy, "plain") == 0 || strcmp(policy, "comm_first") == 0) &&
	       strcmp(kind, "all_gather_gemm") != 0 && strcmp(kind, "gemm_reduce_scatter") != 0;
}

static int check_column(const struct sc_fit_table *t, const char *option, const char *column)
{
	if (sc_csv_column(&t->csv, column) >= 0)
		return 0;
	return sc_err_at(t->err, SC_EUSAGE, t->csv.file, 1, 0, "%s: no column \"%.64s\"", option,
			 column);
}

int sc_fit_table_init(const struct sc_fit_opts *opts, struct sc_arena *arena,
		      struct sc_fit_table *out, struct sc_err *err)
{
	const struct sc_csv *csv = opts->table;
	const char **header = sc_arena_alloc(arena, (csv->n_cols + 1) * sizeof(*header)), *who;
	int rc = 0;

	*out = (struct sc_fit_table){.csv = *csv, .opts = opts, .arena = arena, .err = err};
	memcpy(header, csv->header, csv->n_cols * sizeof(*header));
	for (size_t i = 0; i < opts->n_swaps && rc == 0; i++) {
		const struct sc_fit_swap *swap = &opts->swaps[i];

		rc = check_column(out, "--swap", swap->a);
		if (rc == 0)
			rc = check_column(out, "--swap", swap->b);
		if (rc == 0) {
			header[sc_csv_column(csv, swap->a)] = swap->b;
			header[sc_csv_column(csv, swap->b)] = swap->a;
		}
	}
	out->csv.header = header;
	for (size_t i = 0; i < opts->n_where && rc == 0; i++)
		rc = check_column(out, "--where", opts->where[i].column);
	for (size_t i = 0; i < opts->n_hold_out && rc == 0; i++)
		rc = check_column(out, "--hold-out", opts->hold_out[i].column);
	if (rc == 0 && opts->leave_out)
		rc = check_column(out, "--leave-out", opts->leave_out);
	if (rc)
		return rc;
	out->is_of_pairs = opts->kind == SC_FIT_INTERFERENCE && sc_csv_column(csv, "time_us") < 0 &&
			   sc_csv_column(csv, "overlapped_us") >= 0;
	who = sc_arena_printf(arena, "--kind %s", sc_fit_kind_names[opts->kind]);
	if (!out->is_of_pairs && sc_csv_column(&out->csv, "time_us") < 0)
		return sc_err_at(err, SC_EFORMAT, csv->file, 1, 0,
				 "no column \"time_us\"; %s needs it", who);
	out->rows = (struct sc_csv_rows){
		.csv = &out->csv, .fields = sc_fit_reader_of(out)->cells, .who = who};
	return sc_csv_rows_bind(&out->rows, arena, err);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Where the row's time was taken. */
static int find_origin(struct sc_fit_set *set, const struct sc_fit_table *t, struct sc_fit_row *row)
{
	for (row->source = 0; row->source < set->n_sources; row->source++)
		if (strcmp(set->source[row->source], t->cells.source) == 0)
			break;
	if (row->source == SC_FIT_MAX_SOURCES)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, 0, 0,
				 "more than %d sources of %s; choose some with --where source=NAME",
				 SC_FIT_MAX_SOURCES, t->opts->device);
	if (row->source == set->n_sources)
		set->source[set->n_sources++] = t->cells.source;
	for (row->origin = 0; row->origin < set->n_origins; row->origin++) {
		const struct sc_fit_origin *o = &set->origin[row->origin];

		if (o->source == row->source && same_text(o->op_name, row->op_name) &&
		    same_text(o->pass, row->pass))
			return 0;
	}
	if (set->n_origins == SC_FIT_MAX_ORIGINS)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, 0, 0,
				 "more than %d ops and passes of sources; choose some with --where",
				 SC_FIT_MAX_ORIGINS);
	set->origin[set->n_origins++] = (struct sc_fit_origin){
		.source = row->source, .op_name = row->op_name, .pass = row->pass};
	return 0;
}

static void label_origins(struct sc_fit_set *set, struct sc_arena *arena)
{
	for (size_t i = 0; i < set->n_origins; i++) {
		struct sc_fit_origin *o = &set->origin[i];
		size_t n = 0;

		for (size_t j = 0; j < set->n_origins; j++)
			n += set->origin[j].source == o->source;
		o->label = set->source[o->source];
		if (n > 1)
			o->label = sc_arena_printf(arena, "%s%s%s%s%s", o->label,
						   *o->label && o->op_name ? " " : "",
						   o->op_name ? o->op_name : "", o->pass ? " " : "",
						   o->pass ? o->pass : "");
	}
}

/* t->device becomes the row's. */
static int find_device(struct sc_fit_table *t, struct sc_fit_set *set, unsigned *out)
{
	const char *id = device_of(t);
	struct sc_device *device;
	int rc;

	for (*out = 0; *out < set->n_devices; (*out)++) {
		t->device = set->device[*out];
		if (strcmp(t->device->id, id) == 0)
			return 0;
	}
	if (set->n_devices == SC_FIT_MAX_FOLDS)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, 0, 0,
				 "more than %d devices; choose some with --where",
				 SC_FIT_MAX_FOLDS);
	device = sc_arena_calloc(t->arena, 1, sizeof(*device));
	rc = sc_device_load(id, t->arena, device, t->err);
	if (rc == 0)
		t->device = set->device[set->n_devices++] = device;
	return rc;
}

/* The row table->row as set->rows[set->n]. *taken: false where it has no time, or is a collective with
 * waiting or of an algorithm that no model is for; the set counts which. */
static int fit_row_read(struct sc_fit_table *t, struct sc_fit_set *set, bool *taken)
{
	const struct sc_fit_reader *reader = sc_fit_reader_of(t);
	struct sc_fit_row *out = &set->rows[set->n];
	struct sc_fit_cells *c = &t->cells;
	bool forced = false;
	int rc;

	*taken = has_time(t);
	set->n_empty += !*taken;
	if (*taken && is_bound(t)) {
		set->n_bound++;
		*taken = false;
	}
	if (!*taken)
		return 0;
	sc_fields_init(reader->cells, c);
	c->source = c->collective = c->sweep = c->algo = c->library = c->intra = c->inter = "";
	rc = sc_csv_rows_get(&t->rows, t->row, c, t->err);
	if (rc)
		return rc;
	*out = (struct sc_fit_row){.weight = 1,
				   .time_us = c->time_us,
				   .pass = c->pass_name,
				   .op_name = c->op_name,
				   .group = group_of(t)};
	for (size_t d = 0; d < reader->n_dims; d++)
		memcpy(&out->dim[d], (const char *)c + reader->cells[d].offset, sizeof(double));
	out->shape = sc_fnv(SC_FNV_START, out->dim, sizeof(out->dim));
	rc = find_device(t, set, &out->device);
	if (rc == 0)
		rc = reader->read(t, out);
	if (rc == 0 && t->opts->kind == SC_FIT_COLLECTIVE)
		rc = sc_fit_sweep_read(t, set, out, &forced);
	if (rc == 0 && !forced)
		rc = find_origin(set, t, out);
	set->n_forced += forced;
	*taken = !forced;
	return rc;
}

static int no_rows(struct sc_fit_table *t)
{
	const char *seen[MAX_DEVICES_SHOWN], *names = "";
	size_t n = 0;

	for (t->row = 0; t->row < t->csv.n_rows && n < MAX_DEVICES_SHOWN; t->row++) {
		const char *name = text_of(t, "device");
		size_t j = 0;

		while (j < n && strcmp(name, seen[j]) != 0)
			j++;
		if (j < n || *name == '\0' || strcmp(name, t->opts->device) == 0)
			continue;
		names = sc_arena_printf(t->arena, "%s%s%s", names, n ? ", " : "", name);
		seen[n++] = name;
	}
	return sc_err_at(t->err, SC_EVALUE, t->csv.file, 0, 0,
			 "no row for %s%s; other devices in the table: %s", t->opts->device,
			 t->opts->n_where ? " that --where chooses" : "", n ? names : "none");
}

int sc_fit_set_read(struct sc_fit_table *t, struct sc_fit_set *out)
{
	const size_t n_rows = t->csv.n_rows;
	int rc = 0;

	if (sc_fit_takes_all(t->opts) && sc_csv_column(&t->csv, "device") < 0)
		return sc_err_at(t->err, SC_EFORMAT, t->csv.file, 1, 0,
				 "no column \"device\"; --leave-out %s needs it",
				 t->opts->leave_out);
	*out = (struct sc_fit_set){.n = 0};
	for (t->row = 0; t->row < n_rows; t->row++)
		out->n += is_chosen(t);
	if (out->n == 0)
		return no_rows(t);
	out->n_other = n_rows - out->n;
	out->rows = sc_arena_calloc(t->arena, out->n, sizeof(*out->rows));
	if (t->opts->kind == SC_FIT_COLLECTIVE)
		out->requests =
			sc_arena_calloc(t->arena, SC_FIT_MAX_NETWORKS, sizeof(*out->requests));
	out->n = 0;
	for (t->row = 0; t->row < n_rows && rc == 0; t->row++) {
		bool taken;

		if (!is_chosen(t))
			continue;
		rc = fit_row_read(t, out, &taken);
		if (rc == 0 && taken && out->rows[out->n].only) {
			out->n_forced++;
			taken = false;
		}
		out->n += rc == 0 && taken;
	}
	label_origins(out, t->arena);
	return rc;
}

/* Rows of a measured table by the profiles as they are shipped: what `validate --kind` compares. */

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
		rc = fit_row_read(&g.table, set, &taken);
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
