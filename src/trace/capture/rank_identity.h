/* Finds which rank of which run a process is, from what launchers put in the environment. */
#pragma once

#include "trace/format/trace_file.h"

typedef const char *(*sc_getenv_fn)(void *ctx, const char *name);
/* torchrun, Open MPI, PMIx, PMI (MPICH, Intel), MVAPICH, Slurm, in this order: the first that says
 * a rank says everything. Fields that are not known are -1. The run's id is a hash of what the
 * launcher or `stepcast record` calls the run. Does not touch host, pid and source. */
void sc_rank_identity_read(struct sc_trace_identity *out, sc_getenv_fn get, void *ctx);
