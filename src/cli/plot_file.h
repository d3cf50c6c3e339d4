/* --plot FILE of the commands that draw. */
#ifndef SC_CLI_PLOT_FILE_H
#define SC_CLI_PLOT_FILE_H

#include "base/err.h"
#include "base/strbuf.h"

/* A script for gnuplot that writes `path` ("svg", "png"). */
typedef void (*sc_cli_plotter)(const void *ctx, const char *terminal, const char *path,
			       struct sc_strbuf *out);
int sc_cli_plot(const char *path, sc_cli_plotter put, const void *ctx, struct sc_err *err);
/* NULL is fine; else a name that ends in .svg or .png, and gnuplot is there. */
int sc_cli_plot_check(const char *path, struct sc_err *err);

#endif
