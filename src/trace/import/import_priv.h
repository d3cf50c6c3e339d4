/* The part that importers share: names and ranks of the output, texts interned once. */
#pragma once

#include "base/json_text.h"
#include "trace/import/import.h"
#include "trace/import/json_scan.h"

/* --- texts (import_names.c) --- */
enum sc_name_flags {
	SC_NAME_COMM = 1,         /* collective kernel */
	SC_NAME_NCCL = 2,         /* sc_is_nccl_kernel */
	SC_NAME_STEP = 4,         /* "ProfilerStep#3" */
	SC_NAME_CALL = 8,         /* "nccl:all_reduce": a collective call as a range */
	SC_NAME_PARAM_COMMS = 16, /* "record_param_comms" */
	SC_NAME_MEMORY = 32,      /* "[memory]" */
	SC_NAME_OPTIMIZER = 64    /* "Optimizer.step#SGD.step"; "enumerate(DataLoader)#..." */
};
struct sc_import_name {
	char *raw; /* as in the file */
	size_t n;
	uint32_t id, flags; /* string of the trace */
	uint32_t n_repaired;
	uint8_t copy_kind; /* "Memcpy HtoD (...)" */
};
enum { SC_IMPORT_NAME_SLOTS = 8192, SC_IMPORT_NAME_MAX = 4096 };
struct sc_import_names {
	struct sc_trace_writer *writer;
	struct sc_import_name *slots; /* NULL: no name was asked for */
	struct sc_strbuf text;        /* the last name decoded; scratch */
	struct sc_import_name large;  /* of the last name longer than SC_IMPORT_NAME_MAX */
};
void sc_import_names_release(struct sc_import_names *names);
/* Valid until the next call. */
const struct sc_import_name *sc_import_name(struct sc_import_names *names, const char *at,
					    size_t n);
static inline uint32_t sc_import_text(struct sc_import_names *names, const struct sc_scan_value *v)
{
	return v->n ? sc_import_name(names, v->at, v->n)->id : 0;
}
/* "[[64, 128], []]" and ["float", ""] as "[[64,128],[]]|float,"; 0 if both are empty. */
uint32_t sc_import_shapes(struct sc_import_names *names, const struct sc_scan_value *dims,
			  const struct sc_scan_value *types);

/* --- the output file of one input (import.c) --- */
struct sc_import_output {
	struct sc_trace_writer *writer;
	struct sc_trace_identity identity; /* rank: what the file says, or -1 */
	struct sc_import_names names;
	const char *in_path; /* these two are given before it is created */
	const struct sc_import_opts *opts;
};
int sc_import_output_create(struct sc_import_output *out, const char *source, struct sc_err *err);
/* Settles the rank (options, file, file name, order), says what of the input could not be used,
 * ends the file and gives it its name. */
int sc_import_output_finish(struct sc_import_output *out, struct sc_import_stats *stats,
			    struct sc_err *err);
void sc_import_output_discard(struct sc_import_output *out); /* also after a failed create */

/* --- probing: the first bytes of a file --- */
/* The place of the first character that is no space; n if there is none. */
static inline size_t sc_import_first(const char *head, size_t n)
{
	size_t at = n >= 3 && __builtin_memcmp(head, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;

	while (at < n &&
	       (head[at] == ' ' || head[at] == '\n' || head[at] == '\r' || head[at] == '\t'))
		at++;
	return at;
}
static inline bool sc_import_has(const char *head, size_t n, const char *text)
{
	size_t n_text = __builtin_strlen(text);

	for (size_t at = 0; at + n_text <= n; at++) {
		if (head[at] == text[0] && __builtin_memcmp(head + at, text, n_text) == 0)
			return true;
	}
	return false;
}

/* --- collective calls (import_comm.c) --- */
int sc_import_dtype_bytes(const char *at, size_t n); /* 0 = not known */
void sc_import_comm_fill(struct sc_trace_comm *to,
			 const struct sc_trace_comm *from); /* what is not said */
/* Sets `bytes` from elements and dtype, if it is not said. */
void sc_import_comm_bytes(struct sc_trace_comm *comm, int dtype_bytes);
