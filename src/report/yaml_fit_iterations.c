/* A fit to iterations as a profile: over the one it started from, the coefficients alone. */
#include <string.h>

#include "report/fit_iterations_report.h"

/* A comment stays one line. */
static void append_plain(struct sc_strbuf *out, const char *text)
{
	for (; *text; text++)
		sc_strbuf_append_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
}

static void append_head(const struct sc_itfit *fit, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "# Fitted by stepcast fit to %zu iterations of ", fit->n_rows);
	append_plain(out, fit->table);
	sc_strbuf_printf(out, ".\n# MAPE %.2f %% as it was, %.2f %% in sample",
			 fit->before.mape_pct, fit->in_sample.mape_pct);
	if (fit->n_groups) {
		sc_strbuf_printf(out, ", %.2f %% of %zu groups left out by ",
				 fit->left_out.mape_pct, fit->n_groups);
		append_plain(out, fit->leave_out);
	}
	sc_strbuf_append(out, ".\n");
}

static void append_value(const struct sc_itfit_coef *c, const char *key, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "%s: %.6g # was %.6g", key, c->value, c->old);
	if (!c->has_effect)
		sc_strbuf_append(out, "; no row depends on it");
	else if (c->at_bound)
		sc_strbuf_append(out, "; at its bound");
	sc_strbuf_append_char(out, '\n');
}

/* The coefficients of the section that coefficient `first` is in, if it is the first of them. */
static void append_section(const struct sc_itfit *fit, size_t first, struct sc_strbuf *out)
{
	const char *field = fit->coefs[first].field, *dot = strchr(field, '.');
	size_t n = dot ? (size_t)(dot - field) + 1 : 0;

	for (size_t i = 0; i < first && n; i++)
		if (strncmp(fit->coefs[i].field, field, n) == 0)
			return;
	if (!n) {
		append_value(&fit->coefs[first], field, out);
		return;
	}
	sc_strbuf_append_n(out, field, n - 1);
	sc_strbuf_append(out, ":\n");
	for (size_t i = first; i < fit->n_coefs; i++) {
		if (strncmp(fit->coefs[i].field, field, n) != 0)
			continue;
		sc_strbuf_append(out, "  ");
		append_value(&fit->coefs[i], fit->coefs[i].field + n, out);
	}
}

void sc_yaml_itfit(const struct sc_itfit *fit, const char *id, struct sc_strbuf *out)
{
	const char *old = fit->coefs[0].id;
	const char *folder = fit->coefs[0].of_device ? "devices" : "software";

	append_head(fit, out);
	if (strcmp(id, old) == 0)
		sc_strbuf_printf(out, "# To take the place of these keys in %s/%s.yaml.\n", folder,
				 old);
	else
		sc_strbuf_printf(out, "schema: stepcast/1\ndefaults: %s/%s.yaml\nid: %s\n", folder,
				 old, id);
	for (size_t i = 0; i < fit->n_coefs; i++)
		append_section(fit, i, out);
}
