/* A job under study: measured times of all its operations, what is typical of them, and the variants of
 * its steps that are simulated. */
#ifndef SC_PREDICT_REPLAY_JOB_PRIV_H
#define SC_PREDICT_REPLAY_JOB_PRIV_H

#include "trace/graph/build_job.h"
#include "trace/replay/replay_study.h"

enum { N_JOB_GAP_CLASSES = 2 * SC_N_JOB_TYPES }; /* first of a type in the step, and later ones */

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
	double *worker_us;    /* [worker][type]: mean work */
	double ring;          /* transfers among replicas, over those recorded */
	uint32_t *n_unpaired; /* of each step */
};
/* Of one thread: the step that is built, and costs for it. */
struct job_built {
	struct sc_job_graph graph;
	double *gap_us, *work_us;
	uint8_t *mark; /* of groups */
	size_t cap, cap_marks;
};
void *sc_job_built_create(void);
void sc_job_built_destroy(void *built);

/* One replay. */
struct job_run {
	struct sc_job job;
	struct job_study study;
	struct sc_job resized_job; /* with other replicas; else `resized` is `study` */
	struct job_study resized;
};

/* replay_job_resize.c */
/* Ranks that one recorded worker stands for: rank numbers are multiples of it. */
int64_t sc_job_mates(const struct sc_job *job);
/* Fills run->resized; `gpus` 0: as recorded. */
int sc_job_resize(struct job_run *run, int64_t gpus, struct sc_err *err);

/* replay_job_results.c: ranks and steps as they are; then what the study found. */
void sc_job_describe(const struct job_run *run, struct sc_replay_result *out);
void sc_job_results(struct replay_study *study);

/* replay_job_stats.c: from gap_us and work_us. */
void sc_job_study_typical(struct job_study *study);
void sc_job_study_workers(struct job_study *study); /* worker_us alone */
void sc_job_study_others(struct job_study *study);
size_t sc_job_gap_class(const struct sc_job *job, size_t op);

/* replay_job_variant.c: costs of the step that is built. */
void sc_job_variant_set(const struct job_study *study, size_t step,
			const struct replay_variant *variant, struct job_built *built);
struct sc_replay_subject sc_job_subject(const struct sc_job *job, size_t step,
					const struct sc_job_op *op);

#endif
