/* Results as text for a terminal. */
#ifndef SC_REPORT_TEXT_H
#define SC_REPORT_TEXT_H

#include "base/strbuf.h"
#include "study/explain/explain.h"
#include "study/validate/validate.h"

/* Where the time of a reading goes: a table that predictions and replays have. */
void sc_text_breakdown(const struct sc_reading *reading, struct sc_strbuf *out);

/* Head lines that other reports share: "gpt, 48 layers, ...", "64 x a100-sxm-80gb, 8 a node" and
 * "tp 8, pp 1, ...". */
#define SC_TEXT_SEARCH "none of these settings fits: stepcast search looks for a split that does"
/* "60.1 of 80.0 GiB a GPU", with the hosts; first of all "Does not fit: ", where it does not. */
void sc_text_memory(const struct sc_memory *memory, struct sc_strbuf *out);
/* `gpu`: what all of them are; NULL: as its nodes say. */
void sc_text_cluster(const struct sc_config *config, const char *gpu, struct sc_strbuf *out);

#endif
