/* What tables and recordings share. */
#ifndef SC_STUDY_C3_PRIV_H
#define SC_STUDY_C3_PRIV_H

#include "core/config/config.h"
#include "study/c3/c3.h"

/* A device by its id, with the network of its usual node. */
struct sc_c3_machine {
	const char *id;
	struct sc_request request;
};
int sc_c3_machine_load(struct sc_c3_machine *machine, const char *id, struct sc_arena *arena,
		       struct sc_err *err);
/* All `gpus` are one node. */
int sc_c3_machine_fabric(struct sc_c3_machine *machine, int64_t gpus, struct sc_arena *arena,
			 const struct sc_fabric **out);

/* How much slower each gets while the other runs, too; the collective has its SMs first. */
struct sc_c3_slowdowns {
	double compute, comm;
};
int sc_c3_slow_each_other(struct sc_c3_study *study, const struct sc_cost *kernel,
			  const struct sc_cost *comm, struct sc_c3_slowdowns *out,
			  struct sc_err *err);

#endif
