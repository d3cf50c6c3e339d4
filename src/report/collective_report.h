/* A collective over sizes: as text and JSON. */
#ifndef SC_REPORT_COLLECTIVE_REPORT_H
#define SC_REPORT_COLLECTIVE_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/collective/collective_place.h"
#include "study/collective/collective_sizes.h"

/* Jobs of one node, and which GPUs they get. */
void sc_text_place(const struct sc_collective_place_opts *opts,
		   const struct sc_collective_place *place, struct sc_strbuf *out);
int sc_json_place(const struct sc_collective_place_opts *opts,
		  const struct sc_collective_place *place, FILE *out, struct sc_err *err);

void sc_text_collective(const struct sc_collective_sizes_opts *opts,
			const struct sc_collective_sizes *sizes, struct sc_strbuf *out);
int sc_json_collective(const struct sc_collective_sizes_opts *opts,
		       const struct sc_collective_sizes *sizes, FILE *out, struct sc_err *err);

#endif
