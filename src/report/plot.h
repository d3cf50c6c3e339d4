/* What gnuplot scripts have in common. */
#ifndef SC_REPORT_PLOT_H
#define SC_REPORT_PLOT_H

#include "base/strbuf.h"

/* terminal: "svg", "png". */
void sc_plot_begin(const char *terminal, const char *path, struct sc_strbuf *out);

#endif
