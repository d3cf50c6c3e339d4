/* What tables and recordings share. */
#ifndef SC_STUDY_C3_PRIV_H
#define SC_STUDY_C3_PRIV_H

#include "core/config/config.h"
#include "predict/recorded/build_trace.h"
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

/* Times of a rank's activities, NAN: as recorded; NULL: all of them. */
struct sc_c3_kernel_times {
	double *alone_us, *policy_us[SC_N_C3_POLICIES];
};
int sc_c3_what_if(const struct sc_trace_run *run, const struct sc_c3_kernel_times *times,
		  struct sc_c3_what_if *out, struct sc_err *err);

#endif
