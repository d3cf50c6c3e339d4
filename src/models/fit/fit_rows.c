/* Rows of a measured table: which are taken, and where their times come from. Rows of other
 * devices, and those that --where leaves out, are counted and passed over. */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/fields.h"
#include "base/fnv.h"
#include "models/fit/fit_priv.h"

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
static const char *row_device(const struct sc_fit_table *t)
{
	return sc_csv_column(&t->csv, "device") < 0 ? t->opts->device : text_of(t, "device");
}

static bool has_value(const struct sc_fit_table *t, const struct sc_where *where)
{
	return fnmatch(where->value, text_of(t, where->column), 0) == 0;
}

static bool is_chosen(const struct sc_fit_table *t)
{
	if (!sc_fit_takes_all(t->opts) && strcmp(row_device(t), t->opts->device) != 0)
		return false;
	for (size_t i = 0; i < t->opts->n_where; i++)
		if (!has_value(t, &t->opts->where[i]))
			return false;
	return true;
}

/* Takes pairs of which both times alone are known, on two streams that wait for nothing. */
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
	const char *who;
	int rc = 0;

	*out = (struct sc_fit_table){.csv = *csv, .opts = opts, .arena = arena, .err = err};
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

/* Finds where the row's time was taken. */
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

		if (o->source == row->source && sc_fit_same_text(o->op_name, row->op_name) &&
		    sc_fit_same_text(o->pass, row->pass))
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

/* t->device becomes the row's. */
static int find_device(struct sc_fit_table *t, struct sc_fit_set *set, unsigned *out)
{
	const char *id = row_device(t);
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

/* The row table->row as set->rows[set->n]. *taken: false where it has no time, or is a collective
 * with waiting or of an algorithm that no model is for; the set counts which. */
static int fit_row_read(struct sc_fit_table *t, struct sc_fit_set *set, bool *taken)
{
	const struct sc_fit_reader *reader = sc_fit_reader_of(t);
	struct sc_fit_row *out = &set->rows[set->n];
	struct sc_fit_cells *c = &t->cells;
	bool forced = false, bound;
	int rc;

	*taken = has_time(t);
	set->n_empty += !*taken;
	/* A collective whose time may hold waiting for peers that were not recorded, as `export`
	 * marks it. Taken where --where names the column. */
	bound = *taken && t->opts->kind == SC_FIT_COLLECTIVE &&
		strcmp(text_of(t, "quality"), "bound") == 0;
	for (size_t i = 0; i < t->opts->n_where; i++)
		bound = bound && strcmp(t->opts->where[i].column, "quality") != 0;
	set->n_bound += bound;
	*taken = *taken && !bound;
	if (!*taken)
		return 0;
	sc_fields_init(reader->cells, c);
	c->kernel = c->source = c->collective = c->sweep = c->algo = c->library = c->intra =
		c->inter = "";
	rc = sc_csv_rows_get(&t->rows, t->row, c, t->err);
	if (rc)
		return rc;
	*out = (struct sc_fit_row){
		.weight = 1, .time_us = c->time_us, .pass = c->pass_name, .op_name = c->op_name};
	if (t->opts->leave_out)
		out->group = text_of(t, t->opts->leave_out);
	for (size_t i = 0; i < t->opts->n_hold_out && !out->group; i++)
		out->group = has_value(t, &t->opts->hold_out[i]) ? "chosen" : NULL;
	for (size_t d = 0; d < reader->n_dims; d++)
		memcpy(&out->dim[d], (const char *)c + reader->cells[d].offset, sizeof(double));
	out->shape = sc_fnv(SC_FNV_START, out->dim, sizeof(out->dim));
	rc = find_device(t, set, &out->device);
	if (rc == 0 && reader->read)
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
	for (size_t i = 0; i < out->n_origins; i++) {
		struct sc_fit_origin *o = &out->origin[i];
		size_t n = 0;

		for (size_t j = 0; j < out->n_origins; j++)
			n += out->origin[j].source == o->source;
		o->label = out->source[o->source];
		if (n > 1)
			o->label = sc_arena_printf(t->arena, "%s%s%s%s%s", o->label,
						   *o->label && o->op_name ? " " : "",
						   o->op_name ? o->op_name : "", o->pass ? " " : "",
						   o->pass ? o->pass : "");
	}
	return rc;
}

/* Rows of a measured table by the profiles as they are shipped: what `validate --kind` compares. */

/* Device, set and request are row's. */
static int guess_row(const struct sc_fit_table *t, struct sc_fit_set *set,
		     const struct sc_fit_row *row, struct sc_fit_guess *out)
{
	struct sc_fit_row own = *row;
	struct sc_device device = *set->device[row->device];
	struct sc_fabric fabric;
	const struct sc_fit_model model = {.kind = t->opts->kind,
					   .devices = &device,
					   .fabrics = &fabric,
					   .profile = set->requests[0].fabric_profile};
	double spread_frac;
	int rc = 0;

	own.device = 0;
	if (model.kind == SC_FIT_COLLECTIVE)
		rc = sc_fabric_from_request(&set->requests[row->request], &fabric, t->err);
	if (rc)
		return rc;
	out->time_us = sc_fit_predict_us(&model, &own, &spread_frac);
	out->low_us = out->time_us * exp(-SC_Z_CENTRAL_80 * spread_frac);
	out->high_us = out->time_us * exp(SC_Z_CENTRAL_80 * spread_frac);
	out->measured_us = row->time_us;
	out->warning = row->warning;
	return 0;
}

int sc_fit_guess_rows(const struct sc_fit_opts *opts, const size_t *rows, size_t n,
		      struct sc_arena *arena, struct sc_fit_guess *out, struct sc_err *err)
{
	struct sc_fit_row row;
	struct sc_fit_set set = {.rows = &row}; /* of one row; devices are kept */
	struct sc_fabric_profile profile;
	struct sc_fit_table table;
	unsigned device;
	int rc = sc_fit_table_init(opts, arena, &table, err);

	if (rc == 0 && sc_csv_column(opts->table, "device") < 0)
		rc = sc_err_at(err, SC_EFORMAT, opts->table->file, 1, 0,
			       "no column \"device\"; --kind %s needs it",
			       sc_fit_kind_names[opts->kind]);
	if (rc == 0)
		rc = sc_fabric_profile_load("default", arena, &profile, err);
	set.requests = sc_arena_calloc(arena, 1, sizeof(*set.requests));
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct sc_arena_mark mark = sc_arena_mark(arena);
		struct sc_err own = {.code = SC_OK};
		bool taken;

		out[i] = (struct sc_fit_guess){.skipped = NULL};
		table.err = &own;
		table.row = rows[i];
		/* of a GPU that no profile is of, or that is not said */
		if (find_device(&table, &set, &device)) {
			sc_arena_rewind(arena, mark);
			out[i].skipped = sc_arena_strdup(arena, own.text);
			continue;
		}
		set.n_sources = set.n_origins = set.n_requests = 0;
		set.n_empty = set.n_forced = set.n_bound = 0;
		rc = fit_row_read(&table, &set, &taken);
		if (rc && !own.line) {
			sc_err_at(err, own.code, SC_AT(&own), "%s", own.text);
			break;
		}
		table.err = err;
		set.requests[0].fabric_profile = profile;
		if (rc) {
			out[i].bad = memcpy(sc_arena_alloc(arena, sizeof(own)), &own, sizeof(own));
			rc = 0;
		} else if (taken) {
			rc = guess_row(&table, &set, &row, &out[i]);
		} else {
			out[i].skipped =
				set.n_empty ? "time_us is empty"
				: set.n_bound
					? "waiting may be in its time (quality bound)"
					: "its algorithm was forced, and is not one of the model's";
		}
	}
	return rc;
}
