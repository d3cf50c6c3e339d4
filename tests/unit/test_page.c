/* Pages: every tag that opens is closed, whatever the texts and numbers are; charts show what can be shown. */
#include <ctype.h>

#include "base/rng.h"
#include "report/chart.h"
#include "runner.h"

static bool is_void(const char *name, size_t n)
{
	static const char *const NAMES[] = {"meta", "br", "input"};

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
		if (strlen(NAMES[i]) == n && memcmp(NAMES[i], name, n) == 0)
			return true;
	return false;
}

/* Tags nest; those of the script are no tags. */
static void check_nesting(const char *text)
{
	struct {
		const char *name;
		size_t n;
	} open[64];
	size_t depth = 0;

	for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
		const char *name = at + 1, *end = strchr(at, '>');
		size_t n;

		ck_assert_ptr_nonnull(end);
		at = end;
		if (*name == '!')
			continue;
		n = strcspn(*name == '/' ? name + 1 : name, " >/");
		if (*name == '/') {
			ck_assert_msg(depth > 0 && open[depth - 1].n == n &&
					      memcmp(open[depth - 1].name, name + 1, n) == 0,
				      "%.40s does not close", name);
			depth--;
		} else if (end[-1] != '/' && !is_void(name, n)) {
			ck_assert_uint_lt(depth, 64);
			open[depth].name = name;
			open[depth++].n = n;
		}
		if (n == 6 && memcmp(name, "script", 6) == 0)
			at = strstr(at, "</script>");
	}
	ck_assert_uint_eq(depth, 0);
	ck_assert_ptr_null(strstr(text, "nan"));
	ck_assert_ptr_null(strstr(text, "inf"));
}

static double any_value(struct sc_rng *rng)
{
	static const double ODD[] = {0, -1, 1e-300, 1e300, 1, (double)NAN, (double)INFINITY};

	return sc_rng_below(rng, 2) ? ODD[sc_rng_below(rng, sizeof(ODD) / sizeof(ODD[0]))]
				    : sc_rng_uniform(rng) * pow(10, (double)sc_rng_below(rng, 9));
}

static const char HOSTILE[] = "</title><b a=\"&'>";

static void put_chart(struct sc_page *page, struct sc_rng *rng)
{
	enum { N = 7 };
	double x[N], y[N];
	const char *labels[N];
	struct sc_series series[2];

	for (int i = 0; i < N; i++) {
		x[i] = any_value(rng);
		y[i] = any_value(rng);
		labels[i] = HOSTILE;
	}
	for (int s = 0; s < 2; s++)
		series[s] = (struct sc_series){HOSTILE,
					       sc_chart_color((size_t)s),
					       x,
					       y,
					       labels,
					       sc_rng_below(rng, N + 1),
					       SC_LINE_AND_POINTS};
	sc_chart(page, &(struct sc_chart){.x_label = HOSTILE,
					  .y_label = HOSTILE,
					  .log_x = sc_rng_below(rng, 2),
					  .log_y = sc_rng_below(rng, 2),
					  .from_zero = sc_rng_below(rng, 2),
					  .equal = sc_rng_below(rng, 2),
					  .series = series,
					  .n_series = 2});
	sc_chart_heat_map(page, &(struct sc_heat_map){.row_name = HOSTILE,
						      .column_name = HOSTILE,
						      .rows = labels,
						      .columns = labels,
						      .n_rows = 2,
						      .n_columns = 3,
						      .values = x,
						      .label = labels,
						      .unit = HOSTILE});
}

TEST(tags_nest)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 7);
	for (int i = 0; i < n_cases(300); i++) {
		const struct sc_share shares[] = {{HOSTILE, "#123", any_value(&rng)},
						  {HOSTILE, "#123", any_value(&rng)}};
		struct sc_strbuf out = {0};
		struct sc_page page;

		sc_page_begin(&page, "test", HOSTILE, &out);
		sc_page_verdict(&page, SC_VERDICT_BAD, "%s", HOSTILE);
		sc_page_figure(&page, HOSTILE, "%s", HOSTILE);
		sc_page_table(&page, "a|b#");
		for (uint64_t k = 2 * sc_rng_below(&rng, 4); k > 0; k--)
			sc_page_cell(&page, "%s", HOSTILE);
		sc_page_table_end(&page);
		sc_page_folded(&page, HOSTILE, HOSTILE);
		sc_chart_shares(&page, HOSTILE, shares, 2, any_value(&rng));
		put_chart(&page, &rng);
		sc_page_end(&page);
		check_nesting(sc_strbuf_get(&out));
		sc_strbuf_release(&out);
	}
}
