/* A collective over sizes: as text and JSON. */
#ifndef SC_REPORT_COLLECTIVE_REPORT_H
#define SC_REPORT_COLLECTIVE_REPORT_H

#include "report/forms.h"
#include "study/collective/collective_place.h"
#include "study/collective/collective_sizes.h"

extern const struct sc_forms sc_collective_forms; /* of a struct sc_collective_sizes */
extern const struct sc_forms
	sc_place_forms; /* of a struct sc_collective_place: jobs of one node, and which GPUs they get */

#endif
