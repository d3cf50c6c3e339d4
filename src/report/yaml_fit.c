/* A fit as a profile: the block with all of its keys, each with what the fit says of it. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "report/fit_report.h"

static const char *const BLOCKS[SC_N_FIT_KINDS] = {
	[SC_FIT_GEMM] = "gemm",
	[SC_FIT_ATTENTION] = "attention",
	[SC_FIT_ROWWISE] = "rowwise",
	[SC_FIT_OPTIMIZER] = "rowwise",
	[SC_FIT_EMBEDDING] = "embedding",
	[SC_FIT_HOST] = "host",
	[SC_FIT_INTERFERENCE] = "interference",
};

/* A comment stays one line. */
static void append_plain(struct sc_strbuf *out, const char *text)
{
	for (; *text; text++)
		sc_strbuf_append_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
}

static void append_head(const struct sc_fit *fit, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "# %s, fitted by stepcast fit on %zu rows (%zu shapes) of %s of ",
			 sc_fit_kind_names[fit->kind], fit->n_rows, fit->n_shapes, fit->device_id);
	append_plain(out, fit->table);
	sc_strbuf_append(out, ".\n# Sources:");
	for (size_t i = 0; i < fit->n_sources; i++) {
		sc_strbuf_append(out, i ? ", " : " ");
		append_plain(out, *fit->sources[i] ? fit->sources[i] : "not stated");
	}
	sc_strbuf_append(out, ".\n# Range:");
	for (size_t i = 0; i < fit->n_ranges; i++)
		sc_strbuf_printf(out, "%s %s %.6g to %.6g", i ? "," : "", fit->ranges[i].name,
				 fit->ranges[i].lowest, fit->ranges[i].highest);
	sc_strbuf_printf(
		out,
		".\n# MAPE %.2f %% in sample; %zu folds: MAPE %.2f, median %.2f, p90 %.2f, "
		"bias %+.2f %%; spread %.2f %%.\n",
		fit->in_sample.mape_pct, fit->n_folds, fit->held_out.mape_pct,
		fit->held_out.median_ape_pct, fit->held_out.p90_ape_pct, fit->held_out.bias_pct,
		fit->spread_frac * SC_PCT);
	for (size_t i = 0; i < fit->n_coefs; i++) {
		const struct sc_fit_coef *c = &fit->coefs[i];

		if (strcmp(c->block, "launch") != 0)
			continue;
		sc_strbuf_append(out, "# Times of ");
		append_plain(out, *c->name ? c->name : "the rows");
		sc_strbuf_printf(out, " hold a launch of %.4g us, which is not in this profile.\n",
				 c->value);
	}
}

static const struct sc_fit_coef *find_coef(const struct sc_fit *fit, const char *block,
					   const char *name)
{
	for (size_t i = 0; i < fit->n_coefs; i++)
		if (strcmp(fit->coefs[i].block, block) == 0 &&
		    strcmp(fit->coefs[i].name, name) == 0)
			return &fit->coefs[i];
	return NULL;
}

static void append_remark(const struct sc_fit_coef *c, struct sc_strbuf *out)
{
	if (!c)
		sc_strbuf_append(out, " # as it was");
	else if (c->status == SC_FIT_FITTED)
		sc_strbuf_printf(out, " # +- %.2g; was %.6g", c->standard_error, c->start);
	else if (c->status == SC_FIT_AT_BOUND)
		sc_strbuf_printf(out, " # at its bound; was %.6g", c->start);
	else
		sc_strbuf_printf(out, " # %s: as it was", sc_fit_status_name(c->status));
}

static const struct sc_field *find_field(const struct sc_field *fields, const char *key)
{
	while (strcmp(fields->key, key) != 0)
		fields++;
	return fields;
}

static double number_at(const void *object, size_t offset)
{
	double x;

	memcpy(&x, (const char *)object + offset, sizeof(x));
	return x;
}

static void append_block(const struct sc_fit *fit, const char *block, struct sc_strbuf *out)
{
	const struct sc_field *section = find_field(sc_device_fields, block);

	sc_strbuf_printf(out, "%s:\n", block);
	for (const struct sc_field *f = section->sub; f->key; f++) {
		if (f->type != SC_F_DOUBLE || strcmp(f->key, "spread_frac") == 0 ||
		    strcmp(f->key, "curve_spread_frac") == 0)
			continue;
		sc_strbuf_printf(out, "  %s: %.6g", f->key,
				 number_at(&fit->device, section->offset + f->offset));
		append_remark(find_coef(fit, block, f->key), out);
		sc_strbuf_append_char(out, '\n');
	}
	if (strcmp(block, "simt") == 0 || fit->kind == SC_FIT_INTERFERENCE)
		return; /* without a spread of its own */
	sc_strbuf_printf(out, "  spread_frac: %.4g # held out\n",
			 fit->formula.n > 0 ? fit->formula_spread_frac : fit->spread_frac);
	if (fit->formula.n > 0)
		sc_strbuf_printf(out, "  curve_spread_frac: %.4g # held out, with the curves\n",
				 fit->spread_frac);
}

/* Was any coefficient of the block found? */
static bool is_fitted(const struct sc_fit *fit, const char *block)
{
	for (size_t i = 0; i < fit->n_coefs; i++)
		if (strcmp(fit->coefs[i].block, block) == 0 &&
		    fit->coefs[i].status <= SC_FIT_AT_BOUND)
			return true;
	return false;
}

/* "gemm rowwise" with the block, if it is not among them. */
static void append_fitted(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const char *old = fit->device.fitted ? fit->device.fitted : "";
	const char *block = BLOCKS[fit->kind];

	sc_strbuf_printf(out, "fitted: \"%s", old);
	if (!strstr(old, block))
		sc_strbuf_printf(out, "%s%s", *old ? " " : "", block);
	sc_strbuf_append(out, "\"\n");
}

static void append_mapping(const struct sc_field *fields, const void *element,
			   struct sc_strbuf *out)
{
	sc_strbuf_append(out, "{");
	for (const struct sc_field *f = fields; f->key; f++) {
		const char *place = (const char *)element + f->offset;
		int64_t integer;
		const char *text;

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

static void append_element(const struct sc_field *fields, const void *element,
			   struct sc_strbuf *out)
{
	sc_strbuf_append(out, "  - ");
	append_mapping(fields, element, out);
	sc_strbuf_append(out, "\n");
}

/* What the fit says of the coefficients of one block, as a comment; false if none was fitted. */
static bool append_remarks(const struct sc_fit *fit, const char *block, struct sc_strbuf *out)
{
	size_t n = out->n;
	bool fitted = false;

	for (size_t i = 0; i < fit->n_coefs; i++) {
		const struct sc_fit_coef *c = &fit->coefs[i];

		if (strcmp(c->block, block) != 0)
			continue;
		sc_strbuf_printf(out, "%s%s", out->n > n ? ", " : "  # ", c->name);
		if (c->status == SC_FIT_FITTED)
			sc_strbuf_printf(out, " +- %.2g", c->standard_error);
		else
			sc_strbuf_printf(out, " %s", sc_fit_status_name(c->status));
		fitted |= c->status == SC_FIT_FITTED || c->status == SC_FIT_AT_BOUND;
	}
	return fitted;
}

/* The elements of a list of the fabric profile that have fitted coefficients. */
static void append_list(const struct sc_fit *fit, const char *key, struct sc_strbuf *out)
{
	const struct sc_field *list = find_field(sc_fabric_fields, key);
	struct sc_strbuf block = {0}, remarks = {0};
	struct sc_structs elements;
	bool any = false;

	memcpy(&elements, (const char *)&fit->fabric + list->offset, sizeof(elements));
	for (size_t i = 0; i < elements.n; i++) {
		const char *element = (const char *)elements.at + i * list->elem_bytes, *name;

		memcpy(&name, element + list->sub[0].offset, sizeof(name)); /* id or kind */
		sc_strbuf_clear(&block);
		sc_strbuf_clear(&remarks);
		sc_strbuf_printf(&block, "%s %s", key, name);
		if (!append_remarks(fit, sc_strbuf_get(&block), &remarks))
			continue;
		sc_strbuf_printf(out, "%s%s%s\n", any ? "" : key, any ? "" : ":\n",
				 sc_strbuf_get(&remarks));
		append_element(list->sub, element, out);
		any = true;
	}
	sc_strbuf_release(&block);
	sc_strbuf_release(&remarks);
}

static void append_doubles(struct sc_strbuf *out, const char *key, const struct sc_doubles *x)
{
	sc_strbuf_printf(out, "    %s: [", key);
	for (size_t i = 0; i < x->n; i++)
		sc_strbuf_printf(out, "%s%.6g", i ? ", " : "", x->at[i]);
	sc_strbuf_append(out, "]\n");
}

/* Those with fitted coefficients first: of networks the first is the machine's own. */
static void append_elements(const struct sc_fit *fit, const char *key, bool own_first,
			    struct sc_strbuf *out)
{
	const struct sc_field *list = find_field(sc_fabric_fields, key);
	struct sc_strbuf block = {0}, remarks = {0};
	struct sc_structs elements;

	memcpy(&elements, (const char *)&fit->fabric + list->offset, sizeof(elements));
	sc_strbuf_printf(out, "%s:\n", key);
	for (int pass = own_first ? 0 : 1; pass < 2; pass++) {
		for (size_t i = 0; i < elements.n; i++) {
			const char *element = (const char *)elements.at + i * list->elem_bytes;
			const char *name;
			bool own;

			memcpy(&name, element + list->sub[0].offset, sizeof(name));
			sc_strbuf_clear(&block);
			sc_strbuf_clear(&remarks);
			sc_strbuf_printf(&block, "%s %s", key, name);
			own = own_first && append_remarks(fit, sc_strbuf_get(&block), &remarks);
			if (own == (pass == 0))
				append_element(list->sub, element, out);
		}
	}
	sc_strbuf_release(&block);
	sc_strbuf_release(&remarks);
}

/* A whole fabric file: the formulas' coefficients for what was not measured, and the curves. */
static void append_machine(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const struct sc_field *ramp = find_field(sc_fabric_fields, "ramp");
	const struct sc_fabric_curve *curves = fit->curves.at;

	sc_strbuf_printf(out, "schema: stepcast/1\ngpu: %s\n", fit->device_id);
	append_elements(fit, "links", false, out);
	append_elements(fit, "nets", true, out);
	if (fit->fabric.walks.n > 0)
		append_elements(fit, "walks", false, out);
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

/* Old curves do not fit new coefficients. */
static void append_gemm_curves(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const struct sc_field *dtype =
		find_field(find_field(sc_device_fields, "gemm_curves")->sub, "dtype");
	const struct sc_gemm_curve *c = fit->curves.at;

	if (fit->curves.n > 0)
		sc_strbuf_append(out, "gemm_curves: # measured over the formula, by rows m\n");
	else if (fit->device.gemm_curves.n > 0)
		sc_strbuf_append(out, "gemm_curves: []\n");
	for (size_t i = 0; i < fit->curves.n; i++, c++) {
		sc_strbuf_printf(out, "  - dtype: %s\n    n: %.15g\n    k: %.15g\n",
				 sc_enum_name(dtype->names, c->dtype), c->n, c->k);
		append_doubles(out, "m", &c->m);
		append_doubles(out, "factor", &c->factor);
	}
}

void sc_yaml_fit(const struct sc_fit *fit, const char *id, struct sc_strbuf *out)
{
	append_head(fit, out);
	if (fit->kind == SC_FIT_COLLECTIVE && fit->curves.n > 0) {
		append_machine(fit, out);
		return;
	}
	if (fit->kind == SC_FIT_COLLECTIVE) {
		sc_strbuf_append(out, "# Entries for a file of fabrics, to take the place of those "
				      "with the same id or kind.\n");
		append_list(fit, "links", out);
		append_list(fit, "nets", out);
		return;
	}
	if (strcmp(id, fit->device_id) == 0) {
		sc_strbuf_printf(out, "# To take the place of the block in devices/%s.yaml.\n", id);
	} else {
		sc_strbuf_printf(out, "schema: stepcast/1\ndefaults: devices/%s.yaml\nid: %s\n",
				 fit->device_id, id);
	}
	append_block(fit, BLOCKS[fit->kind], out);
	if (fit->kind == SC_FIT_GEMM && is_fitted(fit, "simt"))
		append_block(fit, "simt", out);
	append_fitted(fit, out);
	if (fit->kind == SC_FIT_GEMM)
		append_gemm_curves(fit, out);
}
