/* Pieces of the pages of predictions and replays. */
#include "report/html_reading.h"

#include "report/labels.h"

void sc_page_share(struct sc_page *page, const struct sc_share *share, double total)
{
	sc_page_key(page, share->color, share->name);
	sc_page_cell(page, "%.2f", share->value);
	sc_page_cell(page, "%.1f", total > 0 ? 100 * share->value / total : 0);
}

void sc_page_breakdown(struct sc_page *page, const struct sc_reading *reading)
{
	struct sc_share shares[SC_N_OWNERS];

	for (int o = 0; o < SC_N_OWNERS; o++)
		shares[o] = (struct sc_share){
			sc_owner_label((enum sc_owner)o), sc_owner_color((enum sc_owner)o),
			sc_without_dust(reading->breakdown_ms[o], reading->iteration_ms)};
	sc_page_heading(page, "Where the time of the busiest GPU goes");
	sc_chart_shares(page, "share of the iteration", shares, SC_N_OWNERS, reading->iteration_ms);
	sc_page_table(page, "of the busiest GPU|ms#|%#");
	for (int o = 0; o < SC_N_OWNERS; o++)
		sc_page_share(page, &shares[o], reading->iteration_ms);
	sc_page_table_end(page);
}

void sc_page_contributors(struct sc_page *page, const struct sc_reading *reading)
{
	sc_page_heading(page, "Largest contributors");
	sc_page_table(page, "operation|ms#|%#|count#");
	for (size_t i = 0; i < reading->n_contributors; i++) {
		sc_page_cell(page, "%s", reading->contributors[i].what);
		sc_page_cell(page, "%.2f", reading->contributors[i].ms);
		sc_page_cell(page, "%.1f",
			     100 * reading->contributors[i].ms / reading->iteration_ms);
		sc_page_cell(page, "%.0f", reading->contributors[i].count);
	}
	sc_page_table_end(page);
}
