/* A run of GPU streams under study: what is typical of its parts, and variants of its iterations. */
#ifndef SC_PREDICT_REPLAY_STREAMS_PRIV_H
#define SC_PREDICT_REPLAY_STREAMS_PRIV_H

#include "models/collective.h"
#include "predict/engine/simulate.h"
#include "predict/recorded/build_trace.h"
#include "study/replay/replay.h"

enum stream_times {
	STREAM_MEASURED,
	STREAM_TYPICAL, /* mean over all iterations, trimmed */
	STREAM_OTHERS,  /* the same over the other iterations */
	STREAM_MEAN,    /* mean of its name over ranks and iterations */
	STREAM_ZERO
};
/* How an iteration is replayed. */
struct stream_variant {
	enum stream_times gaps; /* of activities, calls and waits */
	enum stream_times work; /* of activities and transfers */
	bool changed;           /* with the changes that were asked for */
	size_t without;         /* rank as fast as the others, or SIZE_MAX */
};
/* Means of each call (gap, tail) and activity (gap, work). */
struct stream_pair {
	float gap_us, work_us;
};
struct stream_medians {
	struct stream_pair *typical_calls, *other_calls, *typical_acts, *other_acts;
	size_t n_alone; /* parts that no other iteration has: their own time stands for them */
};
/* How long a transfer of this kind takes: from the run's own, or those of the model, in a line. */
struct stream_fit {
	int kind, n_ranks;
	size_t n_sizes; /* recorded; 0: of the model */
	double latency_us, us_per_byte;
};
struct stream_study {
	struct sc_trace_run run;
	const struct sc_replay_opts *opts;
	struct stream_medians *medians; /* by rank */
	double *mean_us;                /* by name */
	double *slowness;               /* by rank: computation over the mean of the others */
	struct sc_fabric fabric;        /* for SC_REPLAY_MODEL */
	bool has_fabric;
	SC_VEC(struct stream_fit) fits;           /* for other bucket sizes */
	size_t n_recorded_buckets, n_new_buckets; /* of the iteration looked at last */
	double *part_us;                          /* [rank][part], over all iterations */
	double *late_us;                          /* by rank */
};
struct stream_scratch {
	struct sc_simulator *sim;
	struct sc_timeline timeline;
	struct sc_trace_graph graph;
};

/* replay_streams_stats.c */
void sc_streams_medians(const struct sc_trace_run *run, struct stream_medians *medians);
void sc_streams_means(struct stream_study *study);
void sc_streams_release_medians(struct stream_medians *medians);

/* replay_streams_costs.c: of the graph of an iteration, in place. */
void sc_streams_set(const struct stream_study *study, size_t iteration,
		    const struct stream_variant *variant, struct sc_trace_graph *graph);
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
int sc_streams_check_changes(struct stream_study *study, struct sc_err *err);

/* replay_streams_overlap.c, replay_streams_bucket.c: other edges and nodes in the graph of an iteration. */
void sc_streams_overlap(const struct stream_study *study, struct sc_trace_graph *graph);
/* replay_streams_sizes.c */
bool sc_streams_is_gradient(const struct sc_trace_rank *rank, size_t iteration,
			    const struct sc_act *act);
int sc_streams_fit_sizes(struct stream_study *study, struct sc_err *err);
void sc_streams_bucket(struct stream_study *study, size_t iteration, struct sc_trace_graph *graph);

/* replay_streams_parts.c: where ranks' time went, added up. */
void sc_streams_parts(struct stream_study *study, const struct stream_scratch *scratch,
		      double total_us);
/* replay_streams_results.c */
void sc_streams_results(struct stream_study *study, struct sc_replay_result *out);

#endif
