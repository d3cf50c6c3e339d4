/* Rows of a measured table: cells, which rows are taken, where their times come from. Rows of other
 * devices, and those that --where leaves out, are counted and passed over. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "models/fit_priv.h"

enum { MAX_DEVICES_SHOWN = 8 };
#define MAX_TIME_US 1e12

/* ---- cells ---- */

int sc_fit_column(const struct sc_fit_table *table, const char *column)
{
	for (size_t i = 0; i < table->opts->n_swaps; i++) {
		const struct sc_fit_swap *swap = &table->opts->swaps[i];

		if (strcmp(column, swap->a) == 0)
			return sc_csv_column(table->csv, swap->b);
		if (strcmp(column, swap->b) == 0)
			return sc_csv_column(table->csv, swap->a);
	}
	return sc_csv_column(table->csv, column);
}

int sc_fit_cell_error(const struct sc_fit_table *t, const char *column, const char *expected)
{
	int col = sc_fit_column(t, column);

	return sc_err_at(t->err, SC_EVALUE, t->csv->file, t->csv->line[t->row], 0,
			 "%s: expected %s, got \"%.64s\"", column, expected,
			 sc_csv_cell(t->csv, t->row, (size_t)col));
}

int sc_fit_no_column(const struct sc_fit_table *t, const char *column)
{
	return sc_err_at(t->err, SC_EFORMAT, t->csv->file, 1, 0,
			 "no column \"%s\"; --kind %s needs it", column,
			 sc_fit_kind_names[t->opts->kind]);
}

const char *sc_fit_text(const struct sc_fit_table *table, const char *column)
{
	int col = sc_fit_column(table, column);

	return col < 0 ? "" : sc_csv_cell(table->csv, table->row, (size_t)col);
}

int sc_fit_cell_read(const struct sc_fit_table *table, const struct sc_fit_cell *cell, double *out)
{
	const char *text = sc_fit_text(table, cell->column);
	char expected[96];

	*out = cell->fallback;
	if (*text == '\0' && !isnan(cell->fallback))
		return 0;
	if (sc_fit_column(table, cell->column) < 0)
		return sc_fit_no_column(table, cell->column);
	if (sc_parse_double(text, out) && *out >= cell->lower && *out <= cell->upper)
		return 0;
	snprintf(expected, sizeof(expected), "a number from %g to %g", cell->lower, cell->upper);
	return sc_fit_cell_error(table, cell->column, expected);
}

/* ---- the set ---- */

bool sc_fit_of_machines(const struct sc_fit_opts *opts)
{
	return opts->kind == SC_FIT_COLLECTIVE && sc_fit_takes_all(opts);
}

bool sc_fit_takes_all(const struct sc_fit_opts *opts)
{
	const char *column = opts->kind == SC_FIT_COLLECTIVE ? "machine" : "device";

	return opts->leave_out && strcmp(opts->leave_out, column) == 0;
}

/* A table without the column is of the one device. */
static const char *device_of(const struct sc_fit_table *t)
{
	return sc_fit_column(t, "device") < 0 ? t->opts->device : sc_fit_text(t, "device");
}

static bool has_value(const struct sc_fit_table *t, const struct sc_fit_where *where)
{
	return fnmatch(where->value, sc_fit_text(t, where->column), 0) == 0;
}

/* A collective whose time may hold waiting for peers that were not recorded, as `export` marks it. Taken
 * where --where names the column. */
static bool is_bound(const struct sc_fit_table *t)
{
	if (t->opts->kind != SC_FIT_COLLECTIVE || strcmp(sc_fit_text(t, "quality"), "bound") != 0)
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
		return sc_fit_text(t, t->opts->leave_out);
	for (size_t i = 0; i < t->opts->n_hold_out; i++)
		if (has_value(t, &t->opts->hold_out[i]))
			return "chosen";
	return NULL;
}

static int check_column(const struct sc_fit_table *t, const char *option, const char *column)
{
	if (sc_csv_column(t->csv, column) >= 0)
		return 0;
	return sc_err_at(t->err, SC_EUSAGE, t->csv->file, 1, 0, "%s: no column \"%.64s\"", option,
			 column);
}

bool sc_fit_is_of_pairs(const struct sc_fit_table *t)
{
	return t->opts->kind == SC_FIT_INTERFERENCE && sc_fit_column(t, "time_us") < 0 &&
	       sc_fit_column(t, "overlapped_us") >= 0;
}

static const char *time_column(const struct sc_fit_table *t)
{
	return sc_fit_is_of_pairs(t) ? "overlapped_us" : "time_us";
}

/* Of pairs those of which both times alone are known, on two streams that wait for nothing. */
static bool has_time(const struct sc_fit_table *t)
{
	const char *policy = sc_fit_text(t, "policy"), *kind = sc_fit_text(t, "kind");

	if (!*sc_fit_text(t, time_column(t)))
		return false;
	return !sc_fit_is_of_pairs(t) ||
	       (*sc_fit_text(t, "compute_us") && *sc_fit_text(t, "comm_us") &&
		(strcmp(policy, "plain") == 0 || strcmp(policy, "comm_first") == 0) &&
		strcmp(kind, "all_gather_gemm") != 0 && strcmp(kind, "gemm_reduce_scatter") != 0);
}

static int check_columns(const struct sc_fit_table *t)
{
	const struct sc_fit_opts *opts = t->opts;
	int rc = 0;

	if (sc_fit_takes_all(opts) && sc_fit_column(t, "device") < 0)
		return sc_fit_no_column(t, "device");
	if (sc_fit_column(t, time_column(t)) < 0)
		return sc_fit_no_column(t, "time_us");
	for (size_t i = 0; i < opts->n_where && rc == 0; i++)
		rc = check_column(t, "--where", opts->where[i].column);
	for (size_t i = 0; i < opts->n_hold_out && rc == 0; i++)
		rc = check_column(t, "--hold-out", opts->hold_out[i].column);
	for (size_t i = 0; i < opts->n_swaps && rc == 0; i++) {
		rc = check_column(t, "--swap", opts->swaps[i].a);
		if (rc == 0)
			rc = check_column(t, "--swap", opts->swaps[i].b);
	}
	if (rc == 0 && opts->leave_out)
		rc = check_column(t, "--leave-out", opts->leave_out);
	return rc;
}

static int find_source(struct sc_fit_set *set, const char *name, const struct sc_fit_table *t,
		       unsigned *out)
{
	for (*out = 0; *out < set->n_sources; (*out)++)
		if (strcmp(set->source[*out], name) == 0)
			return 0;
	if (set->n_sources == SC_FIT_MAX_SOURCES)
		return sc_err_at(t->err, SC_ELIMIT, t->csv->file, 0, 0,
				 "more than %d sources of %s; choose some with --where source=NAME",
				 SC_FIT_MAX_SOURCES, t->opts->device);
	set->source[set->n_sources++] = name;
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static int find_origin(struct sc_fit_set *set, const struct sc_fit_table *t, struct sc_fit_row *row)
{
	struct sc_fit_origin *o;

	for (row->origin = 0; row->origin < set->n_origins; row->origin++) {
		o = &set->origin[row->origin];
		if (o->source == row->source && same_text(o->op_name, row->op_name) &&
		    same_text(o->pass, row->pass))
			return 0;
	}
	if (set->n_origins == SC_FIT_MAX_ORIGINS)
		return sc_err_at(t->err, SC_ELIMIT, t->csv->file, 0, 0,
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
		return sc_err_at(t->err, SC_ELIMIT, t->csv->file, 0, 0,
				 "more than %d devices; choose some with --where",
				 SC_FIT_MAX_FOLDS);
	device = sc_arena_calloc(t->arena, 1, sizeof(*device));
	rc = sc_device_load(id, t->arena, device, t->err);
	if (rc)
		return rc;
	t->device = set->device[set->n_devices++] = device;
	return 0;
}

static const char *text_or_null(const struct sc_fit_table *t, const char *column)
{
	const char *text = sc_fit_text(t, column);

	return *text ? text : NULL;
}

int sc_fit_row_read(struct sc_fit_table *t, struct sc_fit_set *set, bool *taken)
{
	const struct sc_fit_cell time = {time_column(t), 1e-6, MAX_TIME_US, NAN};
	struct sc_fit_row *out = &set->rows[set->n];
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
	*out = (struct sc_fit_row){.weight = 1,
				   .pass = text_or_null(t, "pass"),
				   .op_name = text_or_null(t, "op"),
				   .group = group_of(t)};
	rc = sc_fit_cell_read(t, &time, &out->time_us);
	if (rc == 0)
		rc = find_device(t, set, &out->device);
	if (rc == 0)
		rc = sc_fit_shape_read(t, out);
	if (rc == 0 && t->opts->kind == SC_FIT_COLLECTIVE)
		rc = sc_fit_sweep_read(t, set, out, &forced);
	if (rc == 0 && !forced)
		rc = find_source(set, sc_fit_text(t, "source"), t, &out->source);
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

	for (t->row = 0; t->row < t->csv->n_rows && n < MAX_DEVICES_SHOWN; t->row++) {
		const char *name = sc_fit_text(t, "device");
		size_t j = 0;

		while (j < n && strcmp(name, seen[j]) != 0)
			j++;
		if (j < n || *name == '\0' || strcmp(name, t->opts->device) == 0)
			continue;
		names = sc_arena_printf(t->arena, "%s%s%s", names, n ? ", " : "", name);
		seen[n++] = name;
	}
	return sc_err_at(t->err, SC_EVALUE, t->csv->file, 0, 0,
			 "no row for %s%s; other devices in the table: %s", t->opts->device,
			 t->opts->n_where ? " that --where chooses" : "", n ? names : "none");
}

int sc_fit_set_read(struct sc_fit_table *t, struct sc_fit_set *out)
{
	const struct sc_csv *csv = t->csv;
	int rc = check_columns(t);

	if (rc)
		return rc;
	*out = (struct sc_fit_set){.dim_names = sc_fit_dims[t->opts->kind]};
	for (t->row = 0; t->row < csv->n_rows; t->row++)
		out->n += is_chosen(t);
	if (out->n == 0)
		return no_rows(t);
	out->n_other = csv->n_rows - out->n;
	out->rows = sc_arena_calloc(t->arena, out->n, sizeof(*out->rows));
	if (t->opts->kind == SC_FIT_COLLECTIVE)
		out->requests =
			sc_arena_calloc(t->arena, SC_FIT_MAX_NETWORKS, sizeof(*out->requests));
	out->n = 0;
	for (t->row = 0; t->row < csv->n_rows && rc == 0; t->row++) {
		bool taken;

		if (!is_chosen(t))
			continue;
		rc = sc_fit_row_read(t, out, &taken);
		if (rc == 0 && taken && out->rows[out->n].only) {
			out->n_forced++;
			taken = false;
		}
		out->n += rc == 0 && taken;
	}
	label_origins(out, t->arena);
	return rc;
}
