/* A job under study: measured times of all its operations, what is typical of them, and the variants of
 * its steps that are simulated. */
#ifndef SC_PREDICT_REPLAY_JOB_PRIV_H
#define SC_PREDICT_REPLAY_JOB_PRIV_H

#include "predict/engine/simulate.h"
#include "predict/recorded/build_job.h"
#include "study/replay/replay.h"

enum job_gaps { JOB_GAPS_MEASURED, JOB_GAPS_TYPICAL, JOB_GAPS_NONE, JOB_GAPS_OTHERS };
enum job_work { JOB_WORK_MEASURED, JOB_WORK_TYPICAL, JOB_WORK_OTHERS };
/* Which operations are as measured while all others are typical; or whose slowness is taken away; or all
 * the changes that were asked for. */
enum job_pick {
	JOB_PICK_NONE,
	JOB_PICK_DP,
	JOB_PICK_STAGE,
	JOB_PICK_TYPE,
	JOB_WITHOUT,
	JOB_CHANGED
};
struct job_variant {
	enum job_gaps gaps;
	enum job_work work;
	enum job_pick pick;
	uint32_t which;
};

enum { N_JOB_GAP_CLASSES = 2 * SC_N_JOB_TYPES }; /* first of a type in the step, and later ones */

struct job_part {
	double us[SC_N_PARTS], late_us;
};
/* What all threads read; each step writes only what is its own. */
struct job_study {
	const struct sc_job *job;
	const struct sc_replay_opts *opts;
	/* Of each operation, in the order of job->ops: */
	double *gap_us, *work_us; /* measured */
	double *other_gap_us,
		*other_work_us;         /* medians of the other steps; NAN where there is none */
	double type_us[SC_N_JOB_TYPES]; /* typical work */
	double typical_gap_us[N_JOB_GAP_CLASSES];
	double *worker_us;                /* [worker][type]: mean work */
	double ring;                      /* transfers among replicas, over those recorded */
	struct job_part *parts;           /* [step][worker] */
	double *measured_us, *no_gaps_us; /* simulated, of each step: gaps as measured; none */
	uint32_t *n_unpaired;             /* of each step */
};
/* One thread's. */
struct job_scratch {
	struct sc_simulator *sim;
	struct sc_timeline timeline;
	struct sc_job_graph graph;
	double *gap_us, *work_us;
	uint8_t *mark; /* of groups */
	size_t cap, cap_marks;
};
struct job_scratch *sc_job_scratch_create(void);
void sc_job_scratch_destroy(struct job_scratch *scratch);

/* One replay. */
struct job_run {
	struct sc_job job;
	struct job_study study;
	struct sc_job resized_job; /* with other replicas; else `resized` is `study` */
	struct job_study resized;
	SC_VEC(struct job_variant) variants;
	double *variant_us; /* [variant][step] */
	struct job_scratch **scratch;
	unsigned n_jobs;
};
/* The variants that every replay has come first, in this order. */
enum { SC_JOB_V_OTHERS, SC_JOB_V_CHANGED, SC_JOB_V_REFERENCE, SC_JOB_V_TYPICAL, SC_JOB_N_FIXED };

/* replay_job_resize.c */
/* Ranks that one recorded worker stands for: rank numbers are multiples of it. */
int64_t sc_job_mates(const struct sc_job *job);
/* Fills run->resized; `gpus` 0: as recorded. */
int sc_job_resize(struct job_run *run, int64_t gpus, struct sc_err *err);

/* replay_job_results.c */
void sc_job_results(const struct job_run *run, bool changed, struct sc_replay_result *out);

/* replay_job_stats.c: from gap_us and work_us. */
void sc_job_study_typical(struct job_study *study);
void sc_job_study_others(struct job_study *study);
size_t sc_job_gap_class(const struct sc_job *job, size_t op);

/* replay_job_variant.c: costs of the step that is built in scratch->graph. */
void sc_job_variant_set(const struct job_study *study, size_t step,
			const struct job_variant *variant, struct job_scratch *scratch);
struct sc_replay_subject sc_job_subject(const struct sc_job *job, size_t step,
					const struct sc_job_op *op);

/* replay_job_parts.c: where each worker's time went in the simulated step. */
void sc_job_parts(const struct sc_job *job, size_t step, const struct job_scratch *scratch,
		  struct job_part *parts);

#endif
