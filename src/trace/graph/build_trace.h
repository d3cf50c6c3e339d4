/* Traces of GPU streams -> execution graphs, one an iteration.
 *
 * A rank's trace is kept as host calls that matter (they start device work, wait for it, or mark an
 * iteration) and device activities; everything else is dropped while it is loaded. Device times are
 * moved ahead by the latency of a launch, so that an activity could start when its call starts.
 * What waits for what:
 * - an activity for its call, for the one before on its stream, and for the events its stream waits
 * for;
 * - where the trace has no event waits: a collective for the last activity that its thread launched
 * before it on another stream, as c10d does; and an activity that starts within 20 us after one of
 * another stream ends, later than its call and its own stream explain, for that one, if it was
 * launched earlier;
 * - a launch for the activity that left it room in the queue of its stream, where that was full;
 * - a synchronizing call for what it names, else for what its thread launched last; it ends when
 * that has ended; blocking copies for themselves; device synchronization for all streams;
 * - after a quiet of 50 us or more, a thread for the last call of another thread within it:
 * autograd's thread is started by, and wakes, the thread that called backward. Nothing waits for
 * what had not ended in the recording. What is left before a call or an activity when all it waits
 * for is done is its gap. A collective that several recorded ranks have is a group whose transfer
 * is the shortest of its members: the last to arrive does not wait. */
#pragma once

#include "base/intern.h"
#include "core/graph/graph.h"
#include "trace/format/trace_file.h"
#include "trace/graph/iteration_ranges.h"
#include "trace/graph/mend_trace.h"
#include "trace/merge/merge.h"

/* The latency of a launch, an event or a return from waiting is no longer: what a longer gap waited
 * for, the trace does not say. */
enum { SC_TRACE_LATENCY_NS = 20 * 1000 };

enum sc_act_kind { SC_ACT_KERNEL, SC_ACT_COLLECTIVE, SC_ACT_COPY, SC_ACT_SET };
enum sc_call_kind {
	SC_CALL_LAUNCH,
	SC_CALL_QUEUED, /* a launch that waited until its stream's queue had room */
	SC_CALL_SYNC,
	SC_CALL_BEGIN,
	SC_CALL_END
};

/* On a device. Times are on the common clock, from the run's base, less the latency of launches. */
struct sc_act {
	int64_t start_ns, dur_ns;
	uint32_t name;   /* in run->names */
	uint32_t launch; /* call, or SC_NONE */
	uint32_t place; /* the same; without it the last call that it may be; SC_NONE: before all */
	uint32_t first_wait;   /* in rank->waits: other activities */
	uint32_t merge_call;   /* in the collectives of the rank, or SC_NONE */
	float gap_us;          /* INFINITY: nothing is known that it could have waited for */
	uint16_t lane, config; /* config: in rank->configs; 0 = not said */
	uint16_t cut_ns; /* of its beginning, which was before its call could have started it */
	uint8_t kind, n_waits;
};
/* On a host thread. */
struct sc_call {
	int64_t start_ns, dur_ns;
	uint32_t name;
	uint32_t first_wait; /* in rank->waits */
	uint32_t after;      /* call of another thread that this one waits for, or SC_NONE */
	float gap_us;        /* host work before it */
	float tail_us;       /* SYNC, QUEUED: from the end of what it waits for to its own */
	uint32_t range;      /* in run->ranges: the innermost around it */
	uint32_t first_piece, n_pieces; /* in rank->pieces: of the work before it, the last first */
	uint16_t lane;
	uint8_t kind, n_waits;
};
/* A range of the host, an operator or a node of autograd, within another. */
struct sc_host_range {
	uint32_t parent, name; /* name: in run->names */
	uint32_t label; /* the name that says most: the innermost range, else the outermost operator
			 */
	bool is_op, labels_range, loads_data; /* loads_data: it, or one around it */
};
/* Work of a host within one range; 0: in none. */
struct sc_host_piece {
	uint32_t range;
	float us;
};
/* Two nodes in a graph: the host's work before it, and the wait. */
static inline bool sc_call_waits(const struct sc_call *call)
{
	return call->kind == SC_CALL_SYNC || call->kind == SC_CALL_QUEUED;
}
/* An iteration of one rank: calls begin..end, and the activities that they launched. */
struct sc_trace_iteration {
	int64_t step;
	uint32_t begin, end; /* calls: SC_CALL_BEGIN, SC_CALL_END */
	uint32_t first_act,
		end_act; /* all of its activities are in there, with those still running */
	uint32_t n_launches, n_lost; /* of kernels, and of those that the trace does not have */
};
struct sc_trace_stream {
	int32_t device, stream;
	uint32_t first_lane; /* of the stream: kernels of graphs may need several */
	bool comm;           /* collectives only */
};
struct sc_trace_rank {
	int32_t rank;
	int32_t dp_rank, stage;       /* of a job; -1 = not said */
	const char *path, *host;      /* host: "" = not said */
	const char *gpu;              /* as the trace writes it, "NVIDIA H800"; "" = not said */
	SC_VEC(struct sc_act) acts;   /* by start; in order on each lane */
	SC_VEC(struct sc_call) calls; /* by start */
	SC_VEC(uint32_t) waits;       /* activities */
	SC_VEC(struct sc_host_piece) pieces;
	struct {
		const struct sc_merge_call *at;
		size_t n;
	} collectives; /* the calls of the merged rank */
	SC_VEC(struct sc_trace_iteration) iterations;
	SC_VEC(struct sc_trace_stream) streams; /* lanes of activities */
	SC_VEC(struct sc_trace_config) configs; /* how kernels were launched */
	/* By activity, if asked for: shapes of the op that launched it, a string of the rank's
	 * trace; 0 = not said. */
	SC_VEC(uint32_t) shapes;
	uint32_t n_threads; /* lanes of calls */
	double launch_latency_us;
	bool has_waits;    /* the trace says which events streams wait for */
	int64_t n_untimed; /* activities that the trace gives no start */
	int64_t n_lost;    /* launches whose kernel is not there, of iterations that are left out */
	size_t n_cut;      /* these iterations */
	bool is_cut;       /* the file ends early */
	bool lost_nccl;    /* it has calls of collectives, and none of their kernels */
	int64_t n_doubled; /* activities that are there more than once */
	struct sc_trace_mended mended; /* names of its list are those of the run */
};
struct sc_trace_run {
	struct sc_intern names;
	SC_VEC(uint8_t) family; /* enum sc_kernel_family, by name */
	SC_VEC(uint8_t) owner;  /* enum sc_owner, by name */
	SC_VEC(struct sc_trace_rank) ranks;
	SC_VEC(struct sc_host_range) ranges; /* [0]: none; empty if they were not asked for */
	struct sc_intern range_keys;
	struct sc_merge merge;      /* ranks as above */
	SC_VEC(double) transfer_us; /* by instance of merge; NAN: one member only, or no group */
	size_t n_idle;              /* files without activity of a GPU, left out */
	size_t n_contradictions; /* instances whose members did not overlap: not the same collective
				  */
	int64_t base_ns;         /* UTC */
	int32_t world;           /* ranks of the job; -1 = not known */
	int32_t node_gpus; /* of one node: devices listed, or all ranks on a host; 0 = not said */
	bool spans_nodes;  /* said by hosts, or by more ranks than a host lists devices */
	enum sc_found_by found_by;
	char marked_by[128]; /* the same for people */
	bool with_shapes;
	uint32_t n_replicas, n_stages; /* of a job (job.h); 0: GPU streams */
	int64_t n_unknown, n_unpaired; /* its events of unknown operations; sends or receives
					  without the other side */
	size_t n_iterations;           /* all ranks have them, with equal steps at equal places */
	/* The sums of all ranks: */
	int64_t n_events;     /* loaded */
	int64_t n_unlaunched; /* activities whose call the trace does not have */
	uint32_t queue_depth; /* entries that launches waited for; 0 = none did */
	int64_t n_queued;     /* launches that did */
	double queued_us;     /* and how long */
	struct sc_arena arena;
};
struct sc_trace_run_opts {
	const char *range; /* name of the range that is an iteration; NULL: as enum sc_found_by */
	bool shapes;       /* those of ops, too; it takes more memory */
	bool ranges;       /* of the host: which ones its work was in */
};
/* `opts`: NULL: none of them. */
int sc_trace_run_load(const struct sc_trace_files *files, const struct sc_trace_run_opts *opts,
		      struct sc_trace_run *out, struct sc_err *err);
/* Only `merge` and base_ns, which its times are from: ranks as files. */
int sc_trace_run_clocks(const char *const *files, size_t n_files, struct sc_trace_run *out,
			struct sc_err *err);
/* Loads a job's operator timeline. */
int sc_trace_run_load_job(const struct sc_trace_files *files, struct sc_trace_run *out,
			  struct sc_err *err);
void sc_trace_run_release(struct sc_trace_run *run);
static inline const char *sc_trace_run_name(const struct sc_trace_run *run, uint32_t name)
{
	return sc_intern_get(&run->names, name);
}
static inline int64_t sc_act_end(const struct sc_act *act)
{
	return act->start_ns + act->dur_ns;
}

/* Its launch started another just before it: what is between them is the device's. */
static inline bool sc_act_in_graph(const struct sc_trace_rank *rank, uint32_t act)
{
	enum { MAX_BESIDE = 8 }; /* of other streams */
	const uint32_t launch = rank->acts.at[act].launch;

	for (uint32_t k = 1; k <= MAX_BESIDE && k <= act && launch != SC_NONE; k++)
		if (rank->acts.at[act - k].launch == launch)
			return true;
	return false;
}

/* The last end of what it waits for, or `since_ns` if that is later. */
static inline int64_t sc_trace_waits_end(const struct sc_trace_rank *rank, uint32_t first,
					 uint8_t n, int64_t since_ns)
{
	for (uint8_t i = 0; i < n; i++) {
		const int64_t end = sc_act_end(&rank->acts.at[rank->waits.at[first + i]]);

		since_ns = end > since_ns ? end : since_ns;
	}
	return since_ns;
}

/* The thing that a node of a graph stands for. */
enum sc_trace_node_kind {
	SC_TRACE_NODE_BEGIN, /* before the rank's iteration begins */
	SC_TRACE_NODE_CALL,  /* up to the start of a call */
	SC_TRACE_NODE_SYNC,  /* waiting, and the tail */
	SC_TRACE_NODE_ACT,
	SC_TRACE_NODE_CARRIED /* an activity of an earlier iteration that was still to run */
};
struct sc_trace_node {
	uint32_t index; /* of the call or activity */
	uint8_t kind;
};
/* On a device. */
static inline bool sc_trace_node_runs(const struct sc_trace_node *node)
{
	return node->kind == SC_TRACE_NODE_ACT || node->kind == SC_TRACE_NODE_CARRIED;
}
struct sc_trace_graph {
	struct sc_graph graph; /* classes are ranks; each node has its own cost; op is the name */
	SC_VEC(struct sc_trace_node) refs; /* by node */
	SC_VEC(uint32_t) begin;            /* nodes, by rank */
	SC_VEC(uint32_t) end;
	/* scratch */
	SC_VEC(uint32_t) call_node;
	SC_VEC(uint32_t) act_node;
	SC_VEC(uint32_t) lane_last;
	SC_VEC(uint32_t) instance_group;
};
void sc_trace_graph_release(struct sc_trace_graph *graph);
/* Costs are those measured. Sealed. Memory is kept for the next. */
void sc_build_trace(const struct sc_trace_run *run, size_t iteration, struct sc_trace_graph *out);
/* Collectives beside nothing: in the order in which a rank's host launched its device work, a
 * collective waits for all before it, and all after it for the collective. The recorded edges stay,
 * so that it never makes a replay shorter. */
void sc_trace_serialize(const struct sc_trace_run *run, struct sc_trace_graph *graph);
/* Beside all that the trace does not say to wait for them: of ranks whose trace has no event waits,
 * those for collectives are dropped. They were inferred from starts just after ends, which does not
 * show that their data was needed. */
void sc_trace_drop_inferred(const struct sc_trace_run *run, struct sc_trace_graph *graph);
/* The rest of an activity of an earlier iteration when `begin` is called: how long until it starts
 * or goes on, once activity `before` of its lane (or SC_NONE) has ended, and what is left of it. */
struct sc_trace_rest {
	double gap_us, work_us;
};
struct sc_trace_rest sc_trace_act_rest(const struct sc_trace_rank *rank, uint32_t begin,
				       const struct sc_act *act, uint32_t before);
/* How many ranks a collective has; 0: not known. */
int sc_trace_ranks_of(const struct sc_trace_run *run, const struct sc_merge_call *collective);
/* As measured: of collectives that several ranks have, the transfer. */
double sc_trace_act_work_us(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
			    const struct sc_act *act);
