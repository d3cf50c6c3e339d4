/* What people read for the enums of a prediction. */
#ifndef SC_REPORT_LABELS_H
#define SC_REPORT_LABELS_H

#include <stddef.h>

#include "core/graph/cost.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "predict/predict.h"

const char *sc_owner_label(enum sc_owner owner); /* "exposed communication" */
const char *sc_reason_name(enum sc_reason reason);
const char *sc_node_kind_name(enum sc_node_kind kind);
const char *sc_lane_kind_name(enum sc_lane_kind kind);

/* A share of the iteration, 0 where it is only what rounding left of sums and differences. */
double sc_without_dust(double ms, double iteration_ms);

/* The parts of the memory of one GPU, in the order they are shown; total and capacity apart. */
enum { SC_N_MEMORY_PARTS = 6 };
struct sc_memory_part {
	const char *name; /* "weights": the JSON key and the label */
	size_t offset;    /* of its GiB in struct sc_memory */
};
extern const struct sc_memory_part sc_memory_parts[SC_N_MEMORY_PARTS];
double sc_memory_part_gib(const struct sc_memory *memory, size_t part);

#endif
