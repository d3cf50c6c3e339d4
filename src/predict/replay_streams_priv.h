/* A run of GPU streams under study: what is typical of its parts, and variants of its iterations. */
#ifndef SC_PREDICT_REPLAY_STREAMS_PRIV_H
#define SC_PREDICT_REPLAY_STREAMS_PRIV_H

#include "models/collective.h"
#include "predict/build_trace.h"
#include "predict/replay.h"
#include "predict/simulate.h"

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
struct stream_study {
	struct sc_trace_run run;
	const struct sc_replay_opts *opts;
	struct stream_medians *medians; /* by rank */
	double *mean_us;                /* by name */
	double *slowness;               /* by rank: computation over the mean of the others */
	struct sc_fabric fabric;        /* for SC_REPLAY_MODEL */
	bool has_fabric;
	double *part_us; /* [rank][part], over all iterations */
	double *late_us; /* by rank */
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
int sc_streams_check_changes(struct stream_study *study, struct sc_err *err);

/* replay_streams_parts.c: where ranks' time went, added up. */
void sc_streams_parts(struct stream_study *study, const struct stream_scratch *scratch,
		      double total_us);
/* replay_streams_results.c */
void sc_streams_results(struct stream_study *study, struct sc_replay_result *out);

#endif
