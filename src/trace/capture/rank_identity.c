/* The rank, world, local rank and run of a process, from the variables that torchrun, Open MPI,
 * PMIx, MPICH, MVAPICH and Slurm set. The first launcher that gives a rank counts; a variable that
 * is no small number counts as not given. */
#include "trace/capture/rank_identity.h"

#include <string.h>

#include "trace/capture/hash_ids.h"

enum { MAX_RANK = 1 << 24 };

struct launcher {
	const char *rank, *world, *local_rank;
};
static const struct launcher LAUNCHERS[] = {
	{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	{"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
	{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};
/* Variables whose value the processes of one run share. */
static const char *const RUNS[] = {"STEPCAST_RUN_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID",
				   "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};

/* -1: not a small number. */
static int32_t rank_number(const char *text)
{
	int32_t value = 0;

	if (!text || !*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > MAX_RANK)
			return -1;
		value = value * 10 + (*text - '0');
	}
	return value;
}

void sc_rank_identity_read(struct sc_trace_identity *out, sc_getenv_fn get, void *ctx)
{
	out->rank = out->world = out->local_rank = -1;
	out->run_id = 0;
	for (size_t i = 0; i < sizeof(LAUNCHERS) / sizeof(LAUNCHERS[0]); i++) {
		out->rank = rank_number(get(ctx, LAUNCHERS[i].rank));
		if (out->rank < 0)
			continue;
		out->world = rank_number(get(ctx, LAUNCHERS[i].world));
		out->local_rank = rank_number(get(ctx, LAUNCHERS[i].local_rank));
		break;
	}
	for (size_t i = 0; out->run_id == 0 && i < sizeof(RUNS) / sizeof(RUNS[0]); i++) {
		const char *run = get(ctx, RUNS[i]);

		if (run && *run)
			out->run_id = sc_hash_bytes(run, strlen(run));
	}
}
