/* A fit as a profile: the block with all of its keys, or the keys of an iteration's coefficients,
 * each with what the fit says of it. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "report/fit_report.h"

/* A comment stays one line. */
static void append_plain(struct sc_strbuf *out, const char *text)
{
	for (; *text; text++)
		sc_strbuf_append_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
}

static void append_head(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const bool of_iterations = fit->kind == SC_FIT_ITERATION;

	if (of_iterations)
		sc_strbuf_printf(out, "# Fitted by stepcast fit to %zu iterations of ",
				 fit->n_rows);
	else
		sc_strbuf_printf(
			out, "# %s, fitted by stepcast fit on %zu rows (%zu shapes) of %s of ",
			sc_fit_kind_names[fit->kind], fit->n_rows, fit->n_shapes, fit->device_id);
	append_plain(out, fit->table);
	sc_strbuf_append(out, of_iterations ? "" : ".\n# Sources:");
	for (size_t i = 0; i < fit->n_sources; i++) {
		sc_strbuf_append(out, i ? ", " : " ");
		append_plain(out, *fit->sources[i] ? fit->sources[i] : "not stated");
	}
	sc_strbuf_append(out, of_iterations ? "" : ".\n# Range:");
	for (size_t i = 0; i < fit->n_ranges; i++)
		sc_strbuf_printf(out, "%s %s %.6g to %.6g", i ? "," : "", fit->ranges[i].name,
				 fit->ranges[i].lowest, fit->ranges[i].highest);
	sc_strbuf_printf(out, ".\n# MAPE %.2f %% as it was, %.2f %% in sample",
			 fit->before.mape_pct, fit->in_sample.mape_pct);
	if (fit->held_out.n > 0)
		sc_strbuf_printf(out,
				 "; %zu %s: MAPE %.2f, median %.2f, p90 %.2f, bias %+.2f %%; "
				 "spread %.2f %%",
				 fit->n_folds, fit->leave_out ? "groups left out" : "folds",
				 fit->held_out.mape_pct, fit->held_out.median_ape_pct,
				 fit->held_out.p90_ape_pct, fit->held_out.bias_pct,
				 fit->spread_frac * SC_PCT);
	sc_strbuf_append(out, ".\n");
	for (size_t i = 0; i < fit->coefs->n; i++) {
		const struct sc_fit_param *c = &fit->coefs->at[i];

		if (strcmp(c->block, "launch") != 0)
			continue;
		sc_strbuf_append(out, "# Times of ");
		append_plain(out, *c->name ? c->name : "the rows");
		sc_strbuf_printf(out, " hold a launch of %.4g us, which is not in this profile.\n",
				 c->value);
	}
}

/* "key: value # what the fit says of it"; c may be NULL. */
static void append_value(const struct sc_fit_param *c, const char *key, double value, double old,
			 struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "%s: %.6g", key, value);
	if (!c)
		sc_strbuf_append(out, " # as it was\n");
	else if (c->status == SC_FIT_FITTED)
		sc_strbuf_printf(out, " # +- %.2g; was %.6g\n", c->standard_error, old);
	else if (c->status == SC_FIT_AT_BOUND)
		sc_strbuf_printf(out, " # at its bound; was %.6g\n", old);
	else if (c->status == SC_FIT_LEANT)
		sc_strbuf_printf(out, " # hardly told; was %.6g\n", old);
	else
		sc_strbuf_printf(out, " # %s: as it was\n", sc_fit_status_names[c->status]);
}

static double number_at(const void *object, size_t offset)
{
	double x;

	memcpy(&x, (const char *)object + offset, sizeof(x));
	return x;
}

/* ---- devices ---- */

static void append_block(const struct sc_fit *fit, const char *block, struct sc_strbuf *out)
{
	const struct sc_field *section = sc_field_at(sc_device_fields, block);

	sc_strbuf_printf(out, "%s:\n", block);
	for (const struct sc_field *f = section->sub; f->key; f++) {
		const struct sc_fit_param *c = NULL, *at = fit->coefs->at;

		for (; !c && at < fit->coefs->at + fit->coefs->n; at++)
			if (strcmp(at->block, block) == 0 && strcmp(at->name, f->key) == 0)
				c = at;
		if (f->type != SC_F_DOUBLE || strcmp(f->key, "spread_frac") == 0 ||
		    strcmp(f->key, "curve_spread_frac") == 0)
			continue;
		sc_strbuf_append(out, "  ");
		append_value(c, f->key, number_at(&fit->device, section->offset + f->offset),
			     c ? c->start : 0, out);
	}
	if (strcmp(block, "simt") == 0 || fit->kind == SC_FIT_INTERFERENCE)
		return; /* without a spread of its own */
	sc_strbuf_printf(out, "  spread_frac: %.4g # held out\n",
			 fit->formula.n > 0 ? fit->formula_spread_frac : fit->spread_frac);
	if (fit->formula.n > 0)
		sc_strbuf_printf(out, "  curve_spread_frac: %.4g # held out, with the curves\n",
				 fit->spread_frac);
}

static void append_doubles(struct sc_strbuf *out, const char *key, const struct sc_doubles *x)
{
	sc_strbuf_printf(out, "    %s: [", key);
	for (size_t i = 0; i < x->n; i++)
		sc_strbuf_printf(out, "%s%.6g", i ? ", " : "", x->at[i]);
	sc_strbuf_append(out, "]\n");
}

static void append_device(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const char *block = fit->coefs->at[0].block;
	const char *old = fit->device.fitted ? fit->device.fitted : "";
	const struct sc_gemm_curve *c = fit->curves.at;
	const struct sc_name *dtypes =
		sc_field_at(sc_field_at(sc_device_fields, "gemm_curves")->sub, "dtype")->names;
	bool has_simt = false;

	append_block(fit, block, out);
	for (size_t i = 0; i < fit->coefs->n; i++)
		has_simt |= strcmp(fit->coefs->at[i].block, "simt") == 0 &&
			    fit->coefs->at[i].status <= SC_FIT_AT_BOUND;
	if (has_simt)
		append_block(fit, "simt", out);
	sc_strbuf_printf(out, "fitted: \"%s", old);
	if (!strstr(old, block))
		sc_strbuf_printf(out, "%s%s", *old ? " " : "", block);
	sc_strbuf_append(out, "\"\n");
	if (fit->kind != SC_FIT_GEMM)
		return;
	if (fit->curves.n > 0)
		sc_strbuf_append(out, "gemm_curves: # measured over the formula, by rows m\n");
	else if (fit->device.gemm_curves.n > 0) /* old curves do not fit new coefficients */
		sc_strbuf_append(out, "gemm_curves: []\n");
	for (size_t i = 0; i < fit->curves.n; i++, c++) {
		sc_strbuf_printf(out, "  - dtype: %s\n    n: %.15g\n    k: %.15g\n",
				 sc_enum_name(dtypes, c->dtype), c->n, c->k);
		append_doubles(out, "m", &c->m);
		append_doubles(out, "factor", &c->factor);
	}
}

/* ---- fabrics ---- */

static void append_mapping(const struct sc_field *fields, const void *element,
			   struct sc_strbuf *out)
{
	sc_strbuf_append(out, "{");
	for (const struct sc_field *f = fields; f->key; f++) {
		const char *place = (const char *)element + f->offset;
		int64_t integer;
		const char *text;

		if (f->type == SC_F_IGNORE)
			continue;
		sc_strbuf_printf(out, "%s%s: ", f == fields ? "" : ", ", f->key);
		if (f->type == SC_F_DOUBLE) {
			sc_strbuf_printf(out, "%.6g", number_at(element, f->offset));
		} else if (f->type == SC_F_INT) {
			memcpy(&integer, place, sizeof(integer));
			sc_strbuf_printf(out, "%lld", (long long)integer);
		} else if (f->type == SC_F_STR) {
			memcpy(&text, place, sizeof(text));
			sc_strbuf_append(out, text);
		} else if (f->type == SC_F_STRUCT) {
			append_mapping(f->sub, place, out);
		}
	}
	sc_strbuf_append(out, "}");
}

/* The fit's remarks on the coefficients of one block, as a comment; false if none was fitted. */
static bool append_remarks(const struct sc_fit *fit, const char *block, struct sc_strbuf *out)
{
	size_t n = out->n;
	bool fitted = false;

	for (size_t i = 0; i < fit->coefs->n; i++) {
		const struct sc_fit_param *c = &fit->coefs->at[i];

		if (strcmp(c->block, block) != 0)
			continue;
		sc_strbuf_printf(out, "%s%s", out->n > n ? ", " : "  # ", c->name);
		if (c->status == SC_FIT_FITTED)
			sc_strbuf_printf(out, " +- %.2g", c->standard_error);
		else
			sc_strbuf_printf(out, " %s", sc_fit_status_names[c->status]);
		fitted |= c->status <= SC_FIT_AT_BOUND;
	}
	sc_strbuf_append(out, out->n > n ? "\n" : "");
	return fitted;
}

/* A list of the fabric profile: those elements that have fitted coefficients, with remarks; of a
 * whole file the others after them, since of networks the first is the machine's own. */
static void append_list(const struct sc_fit *fit, const char *key, bool whole,
			struct sc_strbuf *out)
{
	const struct sc_field *list = sc_field_at(sc_fabric_fields, key);
	struct sc_strbuf block = {0}, remarks = {0};
	struct sc_structs elements;
	bool any = false;

	memcpy(&elements, (const char *)&fit->fabric + list->offset, sizeof(elements));
	for (int pass = 0; pass < (whole ? 2 : 1); pass++) {
		for (size_t i = 0; i < elements.n; i++) {
			const char *element = (const char *)elements.at + i * list->elem_bytes;
			const char *name;

			memcpy(&name, element + list->sub[0].offset, sizeof(name)); /* id or kind */
			sc_strbuf_clear(&block);
			sc_strbuf_clear(&remarks);
			sc_strbuf_printf(&block, "%s %s", key, name);
			if (append_remarks(fit, sc_strbuf_get(&block), &remarks) != (pass == 0))
				continue;
			if (!any)
				sc_strbuf_printf(out, "%s:\n", key);
			any = true;
			sc_strbuf_append(out, pass == 0 ? sc_strbuf_get(&remarks) : "");
			sc_strbuf_append(out, "  - ");
			append_mapping(list->sub, element, out);
			sc_strbuf_append(out, "\n");
		}
	}
	sc_strbuf_release(&block);
	sc_strbuf_release(&remarks);
}

/* Appends a fabric; with curves it is a whole file: the formulas' coefficients for what was not
 * measured, and the curves. */
static void append_fabric(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const struct sc_field *ramp = sc_field_at(sc_fabric_fields, "ramp");
	const struct sc_fabric_curve *curves = fit->curves.at;
	const bool whole = fit->curves.n > 0;

	if (whole)
		sc_strbuf_printf(out, "schema: stepcast/1\ngpu: %s\n", fit->device_id);
	else
		sc_strbuf_append(out, "# Entries for a file of fabrics, to take the place of those "
				      "with the same id or kind.\n");
	append_list(fit, "links", whole, out);
	append_list(fit, "nets", whole, out);
	if (!whole)
		return;
	append_list(fit, "walks", true, out);
	sc_strbuf_append(out, "ramp:\n");
	for (const struct sc_field *f = ramp->sub; f->key; f++)
		sc_strbuf_printf(out, "  %s: %.6g\n", f->key,
				 number_at(&fit->fabric, ramp->offset + f->offset));
	sc_strbuf_printf(out, "spread_frac: %.4g # held out\ncurves:\n",
			 fmin(fmax(fit->spread_frac, 0.01), 1));
	for (size_t i = 0; i < fit->curves.n; i++) {
		sc_strbuf_printf(out, "  - collective: %s\n    ranks: %lld\n    nodes: %lld\n",
				 curves[i].collective, (long long)curves[i].ranks,
				 (long long)curves[i].nodes);
		append_doubles(out, "bytes", &curves[i].bytes);
		append_doubles(out, "time_us", &curves[i].time_us);
	}
}

/* ---- iterations ---- */

/* All coefficients of the section that coefficient `first` is in, if it is the first of them. */
static void append_section(const struct sc_fit *fit, size_t first, struct sc_strbuf *out)
{
	const struct sc_fit_params *coefs = fit->coefs;
	const char *key = coefs->at[first].name, *dot = strchr(key, '.');
	size_t n = dot ? (size_t)(dot - key) + 1 : 0;

	for (size_t i = 0; i < first && n; i++)
		if (strncmp(coefs->at[i].name, key, n) == 0)
			return;
	if (n)
		sc_strbuf_printf(out, "%.*s:\n", (int)n - 1, key);
	for (size_t i = first; i < (n ? coefs->n : first + 1); i++) {
		const struct sc_fit_param *c = &coefs->at[i];

		if (strncmp(c->name, key, n) != 0)
			continue;
		sc_strbuf_append(out, n ? "  " : "");
		append_value(c, c->name + n, c->value, c->old, out);
	}
}

void sc_yaml_fit(const struct sc_fit *fit, const char *id, struct sc_strbuf *out)
{
	const bool of_iterations = fit->kind == SC_FIT_ITERATION;
	const char *block = fit->coefs->at[0].block;
	const char *old = of_iterations ? strchr(block, ':') + 1 : fit->device_id;
	const char *folder = of_iterations && *block == 's' ? "software" : "devices";

	append_head(fit, out);
	if (fit->kind == SC_FIT_COLLECTIVE) {
		append_fabric(fit, out);
		return;
	}
	if (strcmp(id, old) != 0)
		sc_strbuf_printf(out, "schema: stepcast/1\ndefaults: %s/%s.yaml\nid: %s\n", folder,
				 old, id);
	else
		sc_strbuf_printf(out, "# To take the place of %s in %s/%s.yaml.\n",
				 of_iterations ? "these keys" : "the block", folder, id);
	if (!of_iterations)
		append_device(fit, out);
	for (size_t i = 0; of_iterations && i < fit->coefs->n; i++)
		append_section(fit, i, out);
}
