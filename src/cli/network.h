/* The machine that --device or --cluster name, for commands about one collective. */
#pragma once

#include "models/collective/collective.h"

/* "16G" up to its n-th letter, of 1 byte to 1e15; K, M, G and T are powers of 1,024. 0: none. */
double sc_cli_size(const char *text, size_t n);
/* "all_gather", "all-gather" or "allgather", `n` letters of it. */
bool sc_cli_collective(const char *text, size_t n, enum sc_collective *out);

/* A cluster alone, for commands without a whole config. */
struct sc_op_cluster {
	const char *file, *device; /* either may be NULL; the device replaces the file's */
	int64_t ranks, nodes;
};
/* Makes the request of an operation as sc_config_resolve makes a whole one: gaps are filled with
 * what is usual for its GPU. */
int sc_op_cluster_load(const struct sc_op_cluster *given, struct sc_arena *arena,
		       struct sc_request *request, struct sc_err *err);
struct sc_cli_network {
	struct sc_fabric fabric;
	struct sc_span span;
	const char *device; /* its id */
};
/* The same, and what the collective model sees of it. Ranks that are 0 fill the nodes; nodes that
 * are 0 are as many as the ranks fill, else one. */
int sc_cli_network(const struct sc_op_cluster *given, struct sc_arena *arena,
		   struct sc_request *request, struct sc_cli_network *out, struct sc_err *err);
