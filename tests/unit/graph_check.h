/* The invariants that whoever builds a graph keeps, for tests of builders. */
#pragma once

#include "core/graph/graph.h"

/* Proves: ids in range; every group has one member node per listed class, on a lane of that class;
 * costs finite and >= 0; acyclic with lane edges and groups contracted (the error names a cycle:
 * lanes, groups). A sealed graph that passes cannot deadlock without SM limits. */
int graph_check(const struct sc_graph *graph, struct sc_err *err);
