/* A fit as a gnuplot script that carries its own data. */
#include "report/fit_report.h"
#include "report/plot.h"

/* gnuplot's single-quoted text: a quote is doubled. */
static void append_quoted(struct sc_strbuf *out, const char *text)
{
	sc_strbuf_append_char(out, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			sc_strbuf_append_char(out, '\'');
		sc_strbuf_append_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
	}
	sc_strbuf_append_char(out, '\'');
}

void sc_plot_begin(const char *terminal, const char *path, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "set terminal %s size 800,800 enhanced\nset output ", terminal);
	append_quoted(out, path);
	sc_strbuf_append_char(out, '\n');
}

void sc_plot_fit(const struct sc_fit *fit, const char *terminal, const char *path,
		 struct sc_strbuf *out)
{
	sc_plot_begin(terminal, path, out);
	sc_strbuf_printf(out,
			 "set logscale xy\nset xlabel 'measured, us'\nset ylabel 'predicted, us'\n"
			 "set title '%s of %s, %zu rows: held-out MAPE %.2f %%' noenhanced\n"
			 "set key bottom right\nset grid\nset size square\n$points << EOD\n",
			 sc_fit_kind_names[fit->kind], fit->device_id, fit->n_rows,
			 fit->held_out.mape_pct);
	for (size_t i = 0; i < fit->n_rows; i++)
		sc_strbuf_printf(out, "%.6g %.6g\n", fit->points[i].measured_us,
				 fit->points[i].held_out_us);
	sc_strbuf_append(
		out,
		"EOD\nplot $points using 1:2 with points pointtype 7 pointsize 0.4 title 'held out', "
		"x title 'equal', 1.2*x dashtype 2 title '+20 %', "
		"x/1.2 dashtype 2 title '-20 %'\n");
}
