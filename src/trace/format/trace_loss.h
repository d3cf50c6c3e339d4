/* Counts what a trace should have and does not: lost when it was recorded, damaged, cut, not
 * understood by an import. Every command that reads traces says it in these words. */
#pragma once

#include "base/strbuf.h"
#include "trace/format/trace_file.h"

/* Replay and export of a trace are of use while less than this is missing: docs/traces.md. */
#define SC_LOSS_STANDS_FRAC 0.01

struct sc_trace_loss {
	int64_t n_events; /* that are there */
	int64_t n_lost;   /* that are not: counted, or by the share of time or frames where nobody
			     counted */
	bool is_estimate; /* some were not counted */
	bool is_unknown;  /* some of which nothing tells how many */
	bool is_cut;      /* the trace ends early; what is there is whole */
	size_t n_files;   /* with a loss, of */
	size_t n_all;     /* these */
	char reason[128]; /* the first */
	char file[128];   /* whose it is */
};
/* The loss of one trace; tables and info are those of sc_trace_stat. */
void sc_trace_loss(const struct sc_trace *tables, const struct sc_trace_info *info,
		   struct sc_trace_loss *out);
/* The sum of the losses of a run's traces. */
int sc_trace_loss_of_run(const char *const *files, size_t n, struct sc_trace_loss *out,
			 struct sc_err *err);
double sc_trace_loss_frac(const struct sc_trace_loss *loss);
bool sc_trace_loss_stands(const struct sc_trace_loss *loss);
/* A sentence without a full stop; nothing where nothing is missing. Warnings name files first. */
void sc_trace_loss_text(const struct sc_trace_loss *loss, struct sc_strbuf *out);
void sc_trace_loss_warning(const struct sc_trace_loss *loss, struct sc_strbuf *out);
