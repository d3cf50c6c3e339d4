/* A calibration as text and JSON: the numbers it learned, those it could not, and the band to
 * expect of further runs. */
#include "report/calibration_report.h"

#include <math.h>

#include "base/units.h"
#include "report/fit_report.h"
#include "report/sweep_report.h"

/* The band with so many more runs that leave as much. */
static double band_pct(const struct sc_calibration *c, size_t n_more)
{
	return SC_PCT *
	       expm1(sc_calibration_band_ln(c->start_ln, c->rms_ln, c->fit.n_rows + n_more));
}

static void put_calibration_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_calibration *c = result;
	const size_t k = c->fit.n_rows;

	sc_fit_forms.text(&c->fit, out);
	sc_strbuf_printf(
		out,
		"\nband        +- %.0f %% holds 80 %% of other runs of this stack; %.0f %% "
		"before. With %zu, %zu more runs like these +- %.0f, %.0f %%\n",
		band_pct(c, 0), SC_PCT * expm1(c->start_ln), k, 3 * k, band_pct(c, k),
		band_pct(c, 3 * k));
	for (size_t i = 0; i < c->fit.coefs->n; i++)
		if (c->fit.coefs->at[i].status == SC_FIT_LEANT)
			sc_strbuf_printf(out,
					 "%-19s is hardly told by these runs; it shows in %s\n",
					 c->fit.coefs->at[i].name, c->runs[i]);
	sc_text_unlike(c->validation, out);
}

static void put_calibration_json(const void *result, struct sc_json *json)
{
	const struct sc_calibration *c = result;
	json_t *unlike;

	sc_fit_forms.json(&c->fit, json);
	SC_JSON_PUT(json, json->root, *c, software, band_ln);
	sc_json_real(json, json->root, "start_band_ln", c->start_ln);
	sc_json_real(json, json->root, "left_rms_ln", c->rms_ln);
	unlike = sc_json_array(json, json->root, "unlike_kin");
	for (size_t i = 0; i < c->validation->n_cases; i++)
		if (c->validation->cases[i].kin)
			sc_json_text(json, unlike, NULL, c->validation->cases[i].name);
}

const struct sc_forms sc_calibration_forms = {.json = put_calibration_json,
					      .text = put_calibration_text};

void sc_yaml_calibration(const struct sc_calibration *c, const char *id, struct sc_strbuf *out)
{
	sc_yaml_fit(&c->fit, id, out);
	sc_strbuf_printf(out, "band_ln: %.4g # of %zu runs\n", c->band_ln, c->fit.n_rows);
}
