/* Replays recorded iterations: traces -> execution graph -> simulate -> timeline, beside what was
 * measured; then with changes. What is reused of the recording is said: durations of computation,
 * transfers without the waiting in them, and launch gaps (the host's time before an operation, when
 * nothing it waits for is left). Nothing else: starts, waiting and idle time come out of the
 * simulation. */
#pragma once

#include "base/err.h"
#include "core/graph/cost.h"
#include "core/graph/graph.h"
#include "core/graph/op.h"
#include "core/graph/timeline.h"
#include "predict/reading.h"
#include "trace/format/trace_file.h"
#include "trace/format/trace_loss.h"
#include "trace/graph/kernel_family.h"
#include "trace/replay/replay_select.h"

enum sc_replay_action {
	SC_REPLAY_SCALE, /* times `factor` */
	SC_REPLAY_MEAN,  /* by what operations of its type take over all ranks and iterations */
	SC_REPLAY_MODEL  /* by what our models say */
};
struct sc_replay_change {
	enum sc_replay_action action;
	struct sc_selector selector;
	double factor;
};
/* Launch gaps: those recorded; for each operation the typical one of its like, since gaps also hold
 * waits that no trace explains, which a change would remove or keep wrongly; or none. */
enum sc_replay_gaps { SC_GAPS_AUTO, SC_GAPS_MEASURED, SC_GAPS_TYPICAL, SC_GAPS_NONE };
/* The order that recorded streams keep. NONE: device work that its host launched after a collective
 * waits for the end of it, and it for what was launched before. FREE: nothing waits for a
 * collective where the trace does not say so: waits that were inferred from times are dropped;
 * event waits, stream order and synchronizing calls stay, and so does what a collective waits
 * for. */
enum sc_replay_overlap { SC_OVERLAP_AS_RECORDED, SC_OVERLAP_NONE, SC_OVERLAP_FREE };
/* Ranks that were not recorded: as slow as they were, since what the recorded ones waited for them
 * is used again; or as fast as the recorded ones, which then wait for recorded ranks only. */
enum sc_replay_missing { SC_MISSING_RECORDED, SC_MISSING_SYMMETRIC };
#define SC_UNEXPLAINED_FRAC 0.1
struct sc_replay_opts {
	const struct sc_replay_change *changes;
	size_t n_changes;
	int64_t gpus;             /* 0 = as recorded */
	int64_t without_rank;     /* as fast as its peers; -1 = none */
	enum sc_replay_gaps gaps; /* of changed replays; AUTO: typical */
	enum sc_replay_overlap overlap;
	enum sc_replay_missing missing;
	bool no_what_if;   /* only the iterations, and the changes */
	int64_t show_step; /* whose path and timeline are kept; -1 = that of the median time */
	struct sc_collective_time network; /* that SC_REPLAY_MODEL asks; no `us`: none */
	const char
		*range; /* name of the range that is an iteration; NULL: as the source has them */
	unsigned jobs;  /* threads; 0 = 1 */
};
void sc_replay_opts_init(struct sc_replay_opts *opts);

/* Times are ms. NAN: not known, or not asked for. */
struct sc_replay_iteration {
	int64_t step;
	double measured_ms; /* from the end of the device's work before it to the end of its own; of
			     * the host's where that is later */
	double lag_ms;      /* of the device behind the host at its end */
	double simulated_ms; /* as recorded */
	double predicted_ms; /* from the medians of the other iterations */
	double changed_ms;
	bool outlier;         /* far from what the others predict, and not in what is typical */
	enum sc_part more_of; /* of an outlier: what differs most from the others, mean of ranks */
	double more_ms;
};
extern const char
	*const sc_replay_part_names[SC_N_PARTS]; /* of enum sc_part: JSON keys without _ms */
/* The thing that a step loses most by; NONE: nothing costs much. */
enum sc_replay_loss {
	SC_LOSS_NONE,
	SC_LOSS_HOST,
	SC_LOSS_COMM, /* exposed */
	SC_LOSS_STRAGGLER,
	SC_LOSS_BUBBLE,
	SC_LOSS_MEMORY, /* kernels bound by it */
	SC_LOSS_COPIES, /* that no kernel hides */
	SC_LOSS_WAITS,  /* for peers */
	SC_N_LOSSES
};
/* Why a device that could compute does not. */
enum sc_replay_idle {
	SC_IDLE_HOST,
	SC_IDLE_DATA, /* the host loads it */
	SC_IDLE_COMM,
	SC_IDLE_SYNC, /* the host waits in a call, or a stream for another */
	SC_N_IDLES
};
extern const char *const sc_replay_idle_names[SC_N_IDLES];
/* A range's or operator's times, an iteration of a rank: the host's work, and what it launched. */
struct sc_replay_where {
	const char *name;
	double host_ms, device_ms, n_launched;
};
struct sc_replay_wheres { /* an SC_VEC, the largest first */
	struct sc_replay_where *at;
	size_t n, cap;
};
struct sc_replay_rank {
	char name[48]; /* "dp 0, stage 3" */
	int32_t rank, dp_rank, stage;
	double part_ms[SC_N_PARTS]; /* mean over iterations; sums to the simulated one */
	double memory_bound_ms;     /* of kernels, in what is computed */
	double late_ms;             /* that others waited for it to arrive, summed over them */
	double slowness;            /* its computation over the mean of the other ranks */
	double host_slowness;       /* the same of its host; NAN: not known */
	double without_ms; /* iteration if it were no slower than the others; NAN: not simulated */
};
/* How much longer than with all typical the iteration is, when these operations are as recorded. */
struct sc_replay_factor {
	const char *by; /* "dp_rank", "stage", "op" */
	char name[48];
	double slowdown;
};
struct sc_replay_result {
	const char *source;  /* "job" */
	const char *gpu;     /* as the trace names the first rank's, or NULL; in the arena */
	char marked_by[128]; /* how iterations were found: "marked by ProfilerStep" */
	const char *reused;  /* which durations and gaps of the recording are used again */
	int64_t n_events, n_simulated; /* operations recorded; replayed, over all simulations */
	int64_t n_ranks, gpus;         /* recorded; of the changed replay if it was asked for */
	SC_VEC(struct sc_replay_iteration) iterations;
	SC_VEC(struct sc_replay_rank) ranks;
	SC_VEC(struct sc_replay_factor) factors;
	/* The devices' time, an iteration of a rank; all 0: the trace does not name kernels. */
	double family_ms[SC_N_KERNEL_FAMILIES];
	/* Means over iterations. */
	double measured_ms, simulated_ms, predicted_ms;
	double no_gaps_ms;   /* without launch gaps */
	double reference_ms; /* gaps as below, nothing changed: what changes are compared with */
	enum sc_replay_gaps gaps;
	double typical_ms; /* every operation at the mean of its type over ranks and iterations, no
			      gaps */
	double changed_ms;
	enum sc_replay_loss loss_by; /* as recorded */
	size_t slowest;              /* of STRAGGLER: in ranks */
	double loss_ms;              /* of the mean rank; NONE: what is computed */
	double without_loss_ms; /* COMM, COPIES: without transfers; MEMORY: kernels at twice their
				 * speed; waits: every operation typical. NAN: not simulated */
	double unexplained_ms;  /* on the path of the shown iteration: waits of no known cause */
	struct sc_replay_wheres by_range, by_op; /* empty: the trace has none */
	double idle_ms[SC_N_IDLES];              /* of a device that computes, all 0: not known */
	int64_t world;                           /* ranks of the job; -1: not said */
	/* The part of a step that waits take which nothing in the trace explains. Where it is more
	 * than SC_UNEXPLAINED_FRAC, a change has two answers: they stay, or they follow what is
	 * changed. NAN: one answer. */
	double unexplained_frac, changed_free_ms;
	double broken_frac; /* of the activities: their record cannot be; above 1: records
			       contradict each other */
	int64_t show_step;
	struct sc_reading reading; /* of the shown iteration; contributors are those of the path */
	struct sc_trace_loss loss; /* of the recording */
	struct sc_warnings warnings;
	/* The shown iteration, for --timeline; the changed one if there are changes. */
	struct sc_graph graph;
	struct sc_timeline timeline;
	const char **node_names; /* of each node; class names are those of `ranks` where there are
				    as many */
	struct sc_arena arena;
};
void sc_replay_result_release(struct sc_replay_result *result);

/* Replays the traces of a directory, or one file. */
int sc_replay(const char *path, const struct sc_replay_opts *opts, struct sc_replay_result *out,
	      struct sc_err *err);

/* --- inside --- */
/* 100 |simulated / measured - 1|, median and largest over iterations; of typical ones without
 * outliers. And the lowest and highest 100 (measured / simulated - 1): a single step may come out
 * within. NAN: nothing is known. */
struct sc_replay_error {
	double median_pct, max_pct, bias_pct, typical_max_pct;
	double low_pct, high_pct, typical_low_pct, typical_high_pct;
};
enum sc_replay_column { SC_REPLAY_SIMULATED, SC_REPLAY_PREDICTED };
void sc_replay_error_of(const struct sc_replay_result *result, enum sc_replay_column column,
			struct sc_replay_error *out);
/* Marks those whose measured time is far from the predicted one, as against the others; fewer than
 * half. Returns how many are new. */
size_t sc_replay_mark_outliers(const double *measured, const double *predicted, size_t n,
			       bool *outlier);
