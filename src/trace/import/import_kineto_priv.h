/* One event of a Kineto file, and what is kept between events. */
#pragma once

#include "trace/import/import_priv.h"

enum kineto_cat {
	CAT_NONE, /* no "cat" */
	CAT_OP,
	CAT_ANNOTATION,
	CAT_GPU_ANNOTATION,
	CAT_KERNEL,
	CAT_COPY,
	CAT_SET,
	CAT_RUNTIME,
	CAT_DRIVER,
	CAT_SYNC,
	CAT_EVENT,
	CAT_PYTHON,
	CAT_OVERHEAD,
	CAT_SPAN,
	CAT_INSTANT,
	CAT_UNUSED, /* known, and nothing for us */
	CAT_UNKNOWN
};

/* The last ones are those of an execution trace's nodes. */
enum kineto_key {
	KEY_PH,
	KEY_CAT,
	KEY_NAME,
	KEY_PID,
	KEY_TID,
	KEY_TS,
	KEY_DUR,
	KEY_ARGS,
	KEY_INPUTS,
	KEY_ATTRS,
	KEY_ARGUMENT /* what stands among the arguments elsewhere */
};

/* Arguments that are numbers, and those that are texts or lists. */
enum kineto_num {
	NUM_CORRELATION,
	NUM_EXTERNAL_ID,
	NUM_DEVICE,
	NUM_STREAM,
	NUM_BYTES,
	NUM_REGISTERS,
	NUM_SHARED,
	NUM_GRAPH,
	NUM_SEQUENCE,
	NUM_FORWARD_THREAD,
	NUM_RECORD_FUNCTION,
	NUM_IN_ELEMS,
	NUM_OUT_ELEMS,
	NUM_GROUP_SIZE,
	NUM_SOURCE_RANK,
	NUM_TARGET_RANK,
	NUM_ROOT,
	NUM_SEQ,
	NUM_COMMS_ID,
	NUM_WAIT_STREAM,
	NUM_WAIT_RECORD,
	NUM_WAIT_EVENT,
	NUM_EVENT,
	N_NUMS
};
enum kineto_text {
	TEXT_GRID,
	TEXT_BLOCK,
	TEXT_DIMS,
	TEXT_TYPES,
	TEXT_COLLECTIVE,
	TEXT_DTYPE,
	TEXT_GROUP_NAME,
	TEXT_GROUP_RANKS,
	TEXT_SYNC_KIND,
	TEXT_NAME,
	TEXT_LABELS,
	N_TEXTS
};

struct kineto_event {
	char phase; /* 0 = not said */
	enum kineto_cat cat;
	bool has_ts, bad_ts, has_dur, bad_dur;
	struct sc_scan_value name, pid, tid; /* n = 0: not said */
	int64_t ts_ns, dur_ns;
	uint32_t has_num, has_text; /* bits of kineto_num, kineto_text */
	int64_t num[N_NUMS];
	struct sc_scan_value text[N_TEXTS];
};

/* Words of the file as numbers (import_kineto_scan.c). */
struct kineto_words {
	struct sc_scan_words keys, cats, args, attrs;
	struct sc_scan_value last_cat; /* categories come in runs */
	enum kineto_cat last_cat_id;
	char last_cat_text[SC_SCAN_MAX_WORD];
};
void kineto_words_init(struct kineto_words *words);
/* An event, or a node of an execution trace: without a phase it is an op, timed or not. */
enum sc_scan_rc kineto_scan_event(struct kineto_words *words, struct sc_scan *scan,
				  struct kineto_event *out);

static inline int64_t kineto_num(const struct kineto_event *e, enum kineto_num which, int64_t none)
{
	return e->has_num & 1u << which ? e->num[which] : none;
}
static inline const struct sc_scan_value *kineto_text(const struct kineto_event *e,
						      enum kineto_text which)
{
	static const struct sc_scan_value none = {.kind = SC_SCAN_WORD};

	return e->has_text & 1u << which ? &e->text[which] : &none;
}

/* --- writing (import_kineto_emit.c) --- */
enum { KINETO_MAX_NAMED_LANES = 1024 };
struct kineto_import;
/* Who else knows of the ops: called for every op and annotation, in the order of the file, before
 * it is written; may fill in what the event does not say. */
struct kineto_ops {
	void (*each)(void *ctx, struct kineto_import *im, struct sc_trace_event *event,
		     struct sc_trace_comm *comm);
	void *ctx;
};
/* The record of a CUDA event: in the file, or told by a wait for it. */
struct kineto_record {
	int64_t start_ns; /* of the wait */
	uint32_t correlation;
	int32_t device, stream, event;
	bool is_in_file;
};
#define KINETO_EVENTS "traceEvents"
#define KINETO_NODES "nodes" /* of an execution trace */
struct kineto_import {
	const char *list; /* whose items are read: one of these two */
	/* Only reads: each event, and its text. NULL: all is written. */
	void (*read)(void *ctx, const struct kineto_event *e, const struct sc_scan_value *text);
	void *read_ctx;
	struct sc_import_output out;
	struct sc_import_stats *stats;
	struct kineto_words words;
	struct sc_comm_join *join;
	struct kineto_ops ops;
	bool has_origin;
	int64_t origin_ns; /* of the file's times: what start 0 is */
	int64_t n_ranks;   /* in the file, if it is a merged export of ours */
	int64_t base_ns;   /* baseTimeNanoseconds */
	int32_t caller;    /* the process of the last call, or 0 */
	bool many_callers; /* there are others, as no profiler of one process has */
	unsigned n_named, n_members;
	SC_VEC(struct kineto_record) records;
};
void kineto_emit(struct kineto_import *im, const struct kineto_event *e);
/* Kernels of collectives, to be joined with their calls (import_kineto_join.c). */
struct sc_comm_join *sc_comm_join_create(void);
void sc_comm_join_destroy(struct sc_comm_join *join);
void kineto_join_launch(struct sc_comm_join *join, const struct sc_trace_event *event);
/* The launch config that the call of a correlation brought, or 0. */
uint32_t kineto_join_config(const struct sc_comm_join *join, uint32_t correlation);
void kineto_join_call(struct sc_comm_join *join, const struct sc_trace_event *event,
		      const struct sc_trace_comm *comm);
/* Holds back a collective kernel without arguments; false if it cannot. */
bool kineto_join_kernel(struct sc_comm_join *join, const struct sc_trace_event *event);
/* Takes what an event whose name has `flags` (enum sc_name_flags) says of a collective. */
void kineto_comm(struct kineto_import *im, const struct kineto_event *e, uint32_t flags,
		 struct sc_trace_comm *comm);
/* Once, after the last event: records of events that waits tell of, and the kernels held back. */
void kineto_put_held(struct kineto_import *im);

/* The whole import; `im` says what is read, its statistics, and perhaps `ops` (import_kineto.c). */
int kineto_run(struct kineto_import *im, const struct sc_import_opts *opts, struct sc_err *err);
/* Only reads im->list of a file, giving each event to im->read. */
int kineto_read(struct kineto_import *im, const char *path, struct sc_err *err);
