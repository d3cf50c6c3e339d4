/* What people read for the enums of a prediction. */
#ifndef SC_REPORT_LABELS_H
#define SC_REPORT_LABELS_H

#include <stddef.h>

#include "core/graph/cost.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "predict/predict.h"

extern const char *const sc_owner_labels[]; /* "exposed communication" */
extern const char *const sc_reason_names[]; /* of enum sc_reason */
extern const char *const sc_node_kind_names[];
extern const char *const sc_lane_kind_names[];

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
