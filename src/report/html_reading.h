/* What the pages of predictions and replays have of one reading: who owns the time, and by which operations. */
#ifndef SC_REPORT_HTML_READING_H
#define SC_REPORT_HTML_READING_H

#include "predict/reading.h"
#include "report/chart.h"

/* A row of a table "name|value#|%#". */
void sc_page_share(struct sc_page *page, const struct sc_share *share, double total);
void sc_page_breakdown(struct sc_page *page, const struct sc_reading *reading);
void sc_page_contributors(struct sc_page *page, const struct sc_reading *reading);

#endif
