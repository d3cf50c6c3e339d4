/* A request in another program's words: the way back of `config import`. */
#pragma once

#include "base/strbuf.h"
#include "core/config/config.h"

/* The programs that can be written, by the names of --to; the last is NULL. */
extern const char *const sc_export_targets[];

/* The index of a name; below 0: there is none, SC_EUSAGE. */
int sc_export_target(const char *name, struct sc_err *err);

/* Appends the file that `target` reads, by `write` of its table in configs/foreign. What was
 * written is imported again: each value that comes back otherwise, or not at all, is a warning that
 * names it, since the target cannot say it. What a cluster is made of is none of these.
 * SC_EUNSUPPORTED where the file as a whole cannot be read back. */
int sc_config_export(const struct sc_request *request, const char *target,
		     struct sc_catalog *catalog, struct sc_arena *arena, struct sc_strbuf *out,
		     struct sc_strbuf *unsaid, struct sc_err *err);
