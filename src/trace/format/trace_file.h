/* Our trace files: framed, CRC-checked, columnar, compressed (docs/trace-format.md). One file a
 * process. A directory of such files is a run. */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/format/event.h"

#define SC_TRACE_SUFFIX ".sctrace"

struct sc_trace_identity {
	int32_t rank, world; /* -1 = not known */
	int32_t local_rank, pid;
	uint64_t run_id, host_hash;
	int64_t base_utc_ns;       /* of start 0: starts are relative to it */
	char host[64], source[32]; /* "kineto", "capture", "nsys", "chakra", "job" */
};

/* --- writing: memory does not grow with the number of events --- */
struct sc_trace_writer;
int sc_trace_writer_create(const char *path, const struct sc_trace_identity *identity,
			   struct sc_trace_writer **out, struct sc_err *err);
/* Each returns the id of an equal entry if there is one. Text need not end in NUL. */
uint32_t sc_trace_writer_string(struct sc_trace_writer *w, const char *text, size_t n);
uint32_t sc_trace_writer_lane(struct sc_trace_writer *w, const struct sc_trace_lane *lane);
uint32_t sc_trace_writer_config(struct sc_trace_writer *w, const struct sc_trace_config *config);
uint32_t sc_trace_writer_comm(struct sc_trace_writer *w, const struct sc_trace_comm *comm);
/* In any order of time; frames have the events of one class by lane, then start. */
void sc_trace_writer_add(struct sc_trace_writer *w, const struct sc_trace_event *event);
/* A pair of clocks read together, ns: the trace's and UTC. */
void sc_trace_writer_clock(struct sc_trace_writer *w, int64_t trace_ns, int64_t utc_ns);
/* Events of a class that were lost between two times; `n` < 0: unknown how many. */
void sc_trace_writer_gap(struct sc_trace_writer *w, const struct sc_trace_gap *gap);
/* The reason why a trace ends early though its file does not, as an import of half a file. */
#define SC_META_PARTIAL "partial"
/* Facts that readers show ("device.0.name", "dropped.bad_time"); the last value of a key holds. */
void sc_trace_writer_meta(struct sc_trace_writer *w, const char *key, const char *value);
/* In place of the one that the writer was created with: some sources say it late. */
void sc_trace_writer_identity(struct sc_trace_writer *w, const struct sc_trace_identity *identity);
/* The end frame; the first fault of all calls is reported here. Frees in any case. Until it
 * succeeds a file of that name is what it was (base/output.h). `path`: another name in the same
 * folder, or NULL. */
int sc_trace_writer_finish(struct sc_trace_writer *w, const char *path, struct sc_err *err);
void sc_trace_writer_discard(struct sc_trace_writer *w);

/* --- reading --- */
struct sc_trace_counts {
	int64_t n[SC_N_EVENT_CLASSES], total;
};
struct sc_trace_meta {
	const char *key, *value;
};
/* A whole trace in memory, or what of it was asked for. Ids are indices in these; [0] is empty. */
struct sc_trace {
	const char *path;
	struct sc_trace_identity identity;
	SC_VEC(const char *) strings;
	SC_VEC(struct sc_trace_lane) lanes;
	SC_VEC(struct sc_trace_config) configs;
	SC_VEC(struct sc_trace_comm) comms;
	SC_VEC(struct sc_trace_event) events; /* by start, then in the order written */
	SC_VEC(struct sc_trace_meta) meta;
	SC_VEC(struct sc_trace_gap) gaps;
	SC_VEC(struct sc_trace_clock) clocks;
	bool partial;         /* the writer did not end the file, or SC_META_PARTIAL says so */
	int64_t n_bad_frames; /* skipped: checksum, length, contents */
	struct sc_arena arena;
};
struct sc_trace_load_opts {
	uint32_t classes; /* bit (1 << class); 0 = all */
	bool skip_events; /* only tables and meta */
};
/* Recovers what whole frames a cut or damaged file has; an error only if it is no trace of ours, of
 * an unknown version, or unreadable. `opts` may be NULL. */
int sc_trace_load(const char *path, const struct sc_trace_load_opts *opts, struct sc_trace *out,
		  struct sc_err *err);
void sc_trace_release(struct sc_trace *trace);
const char *sc_trace_meta_of(const struct sc_trace *trace, const char *key); /* or NULL */
/* Event by event in file order, in constant memory but for the tables of `trace` (no events in it);
 * `each` returns 0 to go on. */
typedef int (*sc_trace_event_fn)(void *ctx, const struct sc_trace *trace,
				 const struct sc_trace_event *event, struct sc_err *err);
int sc_trace_scan(const char *path, sc_trace_event_fn each, void *ctx, struct sc_trace *trace,
		  struct sc_err *err);
/* Counts per class, time range and bytes, without decoding events. */
struct sc_trace_info {
	struct sc_trace_counts counts;
	int64_t first_ns, last_ns, file_bytes;
	int64_t n_frames;
};
int sc_trace_stat(const char *path, struct sc_trace *tables, struct sc_trace_info *out,
		  struct sc_err *err);
struct sc_trace_files {
	const char *const *at;
	size_t n;
};
/* The trace files of a folder, by rank, then name; or `path` itself if it is one. Arena strings. */
int sc_trace_list(const char *path, struct sc_arena *arena, const char *const **files, size_t *n,
		  struct sc_err *err);
