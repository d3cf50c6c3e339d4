/* Times of collectives: CSV, or what nccl-tests and rccl-tests print. */
#pragma once

#include "base/csv.h"

/* A file with lines of nccl-tests becomes a table with the columns bytes, time_us (out of place),
 * in_place_us and collective (empty where the digits are too few to tell); of a log that names its
 * ranks also ranks, nodes and gpus_per_node. Any other is read as CSV. */
int sc_nccl_tests_load(const char *path, struct sc_arena *arena, struct sc_csv *out,
		       struct sc_err *err);
