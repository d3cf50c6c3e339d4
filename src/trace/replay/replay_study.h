/* One study of changes for every kind of recording: gaps x durations x changes, over all of its iterations. A
 * kind (of jobs, of streams) says what the graph of an iteration is, what a variant costs in it, when it ends
 * and what is typical; variants, what they are compared with and what is said of them are here. */
#ifndef SC_STUDY_REPLAY_STUDY_H
#define SC_STUDY_REPLAY_STUDY_H

#include "predict/workload.h"
#include "trace/replay/replay.h"

/* Which gaps, or durations, a variant has. */
enum replay_times {
	TIMES_MEASURED,
	TIMES_TYPICAL, /* of its like */
	TIMES_OTHERS,  /* the same without the iteration itself */
	TIMES_MEAN,    /* of its type, over ranks and iterations */
	TIMES_ZERO
};
/* What is unlike them. */
enum replay_pick {
	PICK_NONE,
	PICK_CHANGED, /* all the changes that were asked for */
	PICK_WITHOUT, /* the slowness of a rank is taken away */
	PICK_DP,      /* durations of these as measured, all others typical: a replica, */
	PICK_STAGE,
	PICK_OP
};
struct replay_variant {
	enum replay_times gaps, work;
	enum replay_pick pick;
	uint32_t which;
};
/* Those that every study has come first. */
enum { V_RECORDED, V_OTHERS, V_CHANGED, V_REFERENCE, V_NO_GAPS, V_TYPICAL, N_FIXED };

/* One thread's. */
struct replay_scratch {
	struct sc_simulator *sim;
	struct sc_timeline timeline;
	struct sc_accountant accountant;
	void *built;            /* the kind's, of the iteration that was built last */
	struct sc_graph *graph; /* in it; NULL: none is built */
	size_t iteration;
	bool reshaped;
	int64_t n_simulated; /* nodes */
};
/* What is being simulated: the workload's self. */
struct replay_at {
	const struct replay_study *study;
	void *model;
	struct replay_scratch *s;
	size_t iteration, v;
	const struct replay_variant *variant;
	int n_settled; /* it ran so often to settle */
};
struct replay_kind {
	/* An iteration in a variant. What it tells of a reading ends with the iteration; names are the study's. */
	struct sc_workload workload;
	bool leaves_outliers;  /* out of what is typical */
	void *(*create)(void); /* a scratch's `built` */
	void (*destroy)(void *built);
	/* Changed iterations have graphs of their own. */
	bool (*reshapes)(const void *model);
	void (*recorded)(const struct replay_at *at); /* V_RECORDED is simulated; may be NULL */
	/* All are recorded, or some became outliers. */
	int (*typical)(struct replay_study *study, struct sc_err *err);
	bool (*predicts)(const void *model, size_t iteration); /* from the others */
	const char *(*name)(const struct replay_at *at, uint32_t node);
	double (*recorded_us)(const struct replay_at *at, uint32_t node); /* its end */
	bool (*ends)(const struct replay_at *at,
		     uint32_t node);             /* may end the recorded iteration */
	void (*say)(struct replay_study *study); /* what the reader must know of the recording */
	/* Kinds of operations that a selector matches, a bit each. */
	unsigned (*matches)(const void *model, const struct sc_selector *selector);
	int (*check)(const void *model, const struct sc_replay_change *change, unsigned kinds,
		     struct sc_warnings *warnings, struct sc_err *err);
};
struct replay_part {
	double us[SC_N_PARTS], late_us;
};
struct replay_study {
	const struct replay_kind *kind;
	void *model;
	const struct sc_replay_opts *opts;
	struct sc_replay_result
		*out; /* ranks and iterations are there: what they are, as measured */
	unsigned n_jobs;
	size_t n_iterations;
	bool changed;
	size_t shown;
	SC_VEC(struct replay_variant) variants;
	double *us;                /* [variant][iteration]; NAN: not simulated */
	bool *outlier;             /* by iteration */
	struct replay_part *parts; /* [iteration][rank], as recorded */
	struct replay_scratch *scratch;
};
/* `study` has its first members, up to `out`, and n_jobs. */
void sc_replay_study_begin(struct replay_study *study);
void sc_replay_study_release(struct replay_study *study);
void sc_replay_study_add(struct replay_study *study, struct replay_variant variant);
/* Refuses what nothing matches, and ranks that are not there. */
int sc_replay_study_check(const struct replay_study *study, struct sc_err *err);
/* Simulates all and fills iterations, means, what ranks cost and the shown iteration. */
int sc_replay_study_run(struct replay_study *study, struct sc_err *err);
/* One iteration in one variant, simulated; `out` lacks names. */
struct replay_at sc_replay_at(const struct replay_study *study, struct replay_scratch *s,
			      size_t iteration, size_t v);
int sc_replay_simulate(struct replay_at *at, struct sc_reading_input *out, struct sc_err *err);
/* For a workload's `build`: is the iteration's graph there, so that only costs change? Says that it is. */
bool sc_replay_is_built(const struct replay_at *at);
static inline uint32_t sc_replay_class(const struct replay_at *at, uint32_t node)
{
	return sc_graph_class_of(at->s->graph, node);
}
/* replay_check.c: warns of the iteration that does not come out as recorded, and names the cause. */
int sc_replay_check_recorded(const struct replay_study *study, struct sc_err *err);
/* Mean over iterations; NAN: not simulated. */
double sc_replay_study_ms(const struct replay_study *study, size_t v);

#endif
