/* Names of who places embedding tables. */
#include "core/embedding/embedding.h"

const struct sc_name sc_planner_names[] = {
	{"stepcast", SC_PLANNER_STEPCAST}, {"torchrec", SC_PLANNER_TORCHREC},
	{"hugectr", SC_PLANNER_HUGECTR},   {"memory_balanced", SC_PLANNER_MEMORY_BALANCED},
	{"lookups", SC_PLANNER_LOOKUPS},   {0},
};
