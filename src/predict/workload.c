/* The one way from a workload to a timeline. */
#include "predict/workload.h"

int sc_workload_run(const struct sc_workload *workload, void *self, struct sc_workload_run *run,
		    struct sc_err *err)
{
	int rc;

	run->n_runs = 0;
	do {
		run->n_runs++;
		rc = workload->build(self, &run->graph, err);
		if (rc == 0)
			rc = sc_simulate(run->sim, run->graph, NULL, run->timeline, err);
	} while (rc == 0 && workload->again && workload->again(self, run->timeline));
	return rc;
}
