/* A run of GPU streams under study: what is typical of its parts, and variants of its iterations. */
#ifndef SC_PREDICT_REPLAY_STREAMS_PRIV_H
#define SC_PREDICT_REPLAY_STREAMS_PRIV_H

#include "trace/graph/build_trace.h"
#include "trace/replay/replay_study.h"

/* An activity that an iteration left to run, and how long after its end that takes. */
struct stream_left {
	uint32_t rank, act;
	double us;
};
/* Of a variant: where the replay of the iteration before ended, for the next to begin there. */
struct stream_follow {
	double behind_frac; /* of what was left to run before the first: this is still there */
	SC_VEC(struct stream_left) left; /* of the iteration before, by rank and activity */
};
/* Means of each call (gap, tail) and activity (gap, work). */
struct stream_pair {
	float gap_us, work_us;
};
struct stream_medians {
	struct stream_pair *typical_calls, *other_calls, *typical_acts, *other_acts;
	size_t n_alone; /* parts that no other iteration has: their own time stands for them */
};
struct stream_study {
	struct sc_trace_run run;
	const struct sc_replay_opts *opts;
	struct stream_medians *medians; /* by rank */
	const bool *outlier;            /* by iteration: not in what is typical */
	double *mean_us;                /* by name */
	double *slowness;               /* by rank: computation over the mean of the others */
	double *host_slowness;          /* the same of its host's work */
	struct stream_follow *follow;   /* by variant */
	double *ends_us;                /* of each rank: host, device, begin, work of the host */
};
/* Of one thread: the iteration that is built. */
struct stream_built {
	struct sc_trace_graph graph;
	SC_VEC(double) begin_us, end_us; /* by rank */
	double from_us, last_us;         /* when it began and ended as a replay, and */
	uint32_t last;                   /* the node that ended it */
};

/* replay_streams_stats.c */
void sc_streams_medians(struct stream_study *study);
void sc_streams_means(struct stream_study *study);
void sc_streams_release_medians(struct stream_medians *medians);

/* replay_streams_costs.c: of the graph of an iteration, in place. */
void sc_streams_set(const struct replay_at *at, struct sc_trace_graph *graph);
/* How many ranks a collective has. */
int sc_streams_ranks_of(const struct stream_study *study, const struct sc_trace_collective *c,
			int32_t instance);
/* By the model of the cluster; NAN without one, or where the trace does not say what was sent. */
double sc_streams_model_us(const struct stream_study *study, const struct sc_trace_collective *c,
			   int n_ranks);
/* Of a collective that not all of its ranks were recorded of: what may be waiting for the others. */
double sc_streams_waiting_us(const struct stream_study *study, size_t rank,
			     const struct sc_act *act, double us);
/* The same over all iterations; adds to n_unknown the collectives of which it cannot be told. */
double sc_streams_rank_waiting_us(const struct stream_study *study, size_t rank,
				  int64_t *n_unknown);
/* Kinds of operations that a selector matches, a bit each. */
unsigned sc_streams_matches(const void *study, const struct sc_selector *selector);
/* Refuses changes that would change nothing; warns of those that change a part of what they match. */
int sc_streams_check_change(const void *study, const struct sc_replay_change *change,
			    unsigned kinds, struct sc_warnings *warnings, struct sc_err *err);
/* The same of a straggler, and of the number of GPUs. */
int sc_streams_check(const struct stream_study *study, struct sc_warnings *warnings,
		     struct sc_err *err);

/* replay_streams_overlap.c: other edges in the graph of an iteration. */
void sc_streams_overlap(const struct stream_study *study, struct sc_trace_graph *graph);

/* replay_streams_results.c: ranks and iterations as they are; then what the study found. */
void sc_streams_describe(const struct stream_study *study, struct sc_replay_result *out);
void sc_streams_results(struct replay_study *study);

#endif
