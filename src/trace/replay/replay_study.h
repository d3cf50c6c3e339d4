/* One study of changes for every recording: gaps x durations x changes, over its iterations. */
#pragma once

#include "predict/engine/simulate.h"
#include "trace/graph/build_trace.h"
#include "trace/replay/replay.h"

/* The gaps, or durations, that a variant has. */
enum replay_times {
	TIMES_TYPICAL, /* of its like */
	TIMES_OTHERS,  /* the same without the iteration itself */
	TIMES_MEASURED,
	TIMES_MEAN, /* of its name, over ranks and iterations; of a job's communication the median
		     */
	TIMES_ZERO
};
/* The part that is unlike them. */
enum replay_pick {
	PICK_NONE,
	PICK_CHANGED, /* all the changes that were asked for */
	PICK_WITHOUT, /* the slowness of a rank is taken away */
	PICK_DP,      /* of a job, durations of these as measured, all others typical: a replica, */
	PICK_STAGE,
	PICK_OP,        /* by name; receives are with their sends */
	PICK_TRANSFERS, /* they take no time */
	PICK_COPIES,    /* the same */
	PICK_MEMORY     /* kernels bound by it run at twice their speed */
};
struct replay_variant {
	enum replay_times gaps, work;
	enum replay_pick pick;
	uint32_t which;
};
/* Those that every study has come first. */
enum {
	V_RECORDED,
	V_OTHERS,
	V_CHANGED,
	V_REFERENCE,
	V_NO_GAPS,
	V_TYPICAL,
	V_LOSS,
	V_EXPLAINED, /* as recorded, without the waits that nothing explains */
	V_FREE,      /* changed, and these waits with it */
	N_FIXED
};

/* An activity that an iteration left to run, and how long after its end that takes. */
struct replay_left {
	uint32_t rank, act; /* sc_trace_compare_pair */
	double us;
};
/* The place where a variant's replay of the iteration before ended, for the next to begin there. */
struct replay_follow {
	double behind_frac; /* of what was left to run before the first: this is still there */
	SC_VEC(struct replay_left) left; /* of the iteration before, by rank and activity */
};
/* Means of each call (gap, tail) and activity (gap, work). */
struct replay_pair {
	float gap_us, work_us;
};
struct replay_medians {
	struct replay_pair *calls[TIMES_MEASURED], *acts[TIMES_MEASURED]; /* by times before it */
	size_t n_alone; /* parts that no other iteration has: their own time stands for them */
};
struct replay_part {
	double us[SC_N_PARTS], memory_bound_us, late_us;
};
/* One thread's: the iteration that is built. */
struct replay_scratch {
	struct sc_simulator *sim;
	struct sc_timeline timeline;
	struct sc_accountant accountant;
	struct sc_trace_graph graph;
	bool is_built, reshaped; /* reshaped: with waits of its own */
	size_t iteration;
	/* By rank: its marked thread from begin to end, and its work without what any thread waits
	 * for its device; where its device, or its host if that is later, is done with what was
	 * before, and its device with this. */
	double *begin_us, *host_us, *work_us, *free_us, *device_us;
	double from_us, last_us; /* when it began and ended as a replay, and */
	uint32_t last;           /* the node that ended it */
	int64_t n_simulated;     /* nodes */
};
struct replay_study {
	struct sc_trace_run run;
	const struct sc_replay_opts *opts;
	struct sc_replay_result
		*out;    /* ranks and iterations are there: what they are, as measured */
	unsigned n_jobs; /* one, where iterations begin with what the one before left */
	size_t n_iterations;
	bool changed;
	size_t shown;
	SC_VEC(struct replay_variant) variants;
	double *us;                /* [variant][iteration]; NAN: not simulated */
	bool *outlier;             /* by iteration: not in what is typical */
	struct replay_part *parts; /* [iteration][rank], as recorded */
	struct replay_scratch *scratch;
	struct replay_medians *medians; /* by rank */
	double *mean_us;                /* by name: TIMES_MEAN */
	double *slowness;               /* by rank: computation over the mean of the others */
	double *host_slowness;          /* the same of its host's work */
	struct replay_follow *follow;   /* by variant */
};
/* The thing that is being simulated. */
struct replay_at {
	const struct replay_study *study;
	struct replay_scratch *s;
	size_t iteration, v;
	const struct replay_variant *variant;
};

/* Mean over iterations; NAN: not simulated. */
double sc_replay_study_ms(const struct replay_study *study, size_t v);

/* replay_iteration.c: one iteration in one variant; `out` lacks names. */
int sc_replay_simulate(const struct replay_at *at, struct sc_reading_input *out,
		       struct sc_err *err);

/* replay_outliers.c: what differs in the iterations that are marked, with a warning that names
 * them; and a warning of the iteration that does not come out as recorded. */
void sc_replay_explain_outliers(const struct replay_study *study);

/* replay_typical.c: what is typical without outliers; means by name, and how slow each rank is. */
void sc_replay_medians(struct replay_study *study);
void sc_replay_means(struct replay_study *study);
void sc_replay_release_medians(struct replay_medians *medians);
/* Does it count for how slow a rank is? */
bool sc_replay_computes(const struct sc_trace_run *run, const struct sc_act *act);

/* replay_costs.c: of the graph of an iteration, in place. */
void sc_replay_set(const struct replay_at *at, struct sc_trace_graph *graph);
/* The time in collectives that not all of their ranks were recorded of which may be waiting for the
 * others, over all iterations; adds to n_unknown those of which it cannot be told. */
double sc_replay_rank_waiting_us(const struct replay_study *study, size_t rank, int64_t *n_unknown);
/* GPUs of a rank of a job and its mates. */
int64_t sc_replay_mates(const struct sc_trace_run *run);
/* Kinds of operations that a selector matches, a bit each. */
unsigned sc_replay_matches(const struct replay_study *study, const struct sc_selector *selector);

/* replay_check.c: refuses changes that would change nothing, and ranks that are not there; warns of
 * changes of a part of what they match. */
int sc_replay_check(const struct replay_study *study, struct sc_err *err);

/* replay_path.c: reads the shown iteration; names from node_names and the ranks. */
void sc_replay_read(const struct replay_at *at, struct sc_reading_input *in);

/* replay_tables.c */
void sc_replay_tables(const struct replay_study *study);

/* replay_verdict.c: once all means are there. Returns what a what-if still has to pick, or
 * PICK_NONE. */
enum replay_pick sc_replay_find_worst_loss(struct sc_replay_result *result);

/* replay_results.c: ranks and iterations as they are; then what the study found. */
void sc_replay_describe(const struct replay_study *study, struct sc_replay_result *out);
void sc_replay_results(struct replay_study *study);
