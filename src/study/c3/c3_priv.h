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

#endif
