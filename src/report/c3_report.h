/* Pairs of computation and communication, predicted beside measured or recorded, as text and JSON.
 */
#pragma once

#include "models/memory.h"
#include "report/forms.h"
#include "study/c3/c3.h"

struct sc_c3_recording;

/* Pairs under every policy. */
struct sc_c3_advices {
	const struct sc_c3_advice *at;
	size_t n;
	const struct sc_memory *memory;   /* of the config that they are of, or NULL */
	const struct sc_request *request; /* that config, or NULL */
};
extern const struct sc_forms sc_c3_advice_forms; /* of a struct sc_c3_advices; CSV: one row a pair
						    and policy, the best marked */

extern const struct sc_forms sc_c3_table_forms; /* of a struct sc_c3_table; CSV: its rows */
/* The result is a struct sc_c3_recording; CSV: the kernels whose time alone is known, as `stepcast
 * fit --kind interference` reads them. */
extern const struct sc_forms sc_c3_recording_forms;
