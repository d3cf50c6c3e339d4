/* The machine that --device or --cluster name, for commands about one collective. */
#ifndef SC_CLI_NETWORK_H
#define SC_CLI_NETWORK_H

#include "models/collective.h"

/* "16G" up to its n-th letter, of 1 byte to 1e15; K, M, G and T are powers of 1,024. 0: it is none. */
double sc_cli_size(const char *text, size_t n);
/* "all_gather", "all-gather" or "allgather", `n` letters of it. */
bool sc_cli_collective(const char *text, size_t n, enum sc_collective *out);

/* A cluster alone, its gaps filled with what is usual for its GPU. */
struct sc_op_cluster {
	const char *file, *device; /* either may be NULL; the device replaces the file's */
	int64_t ranks, nodes;
};
int sc_op_cluster_load(const struct sc_op_cluster *given, struct sc_arena *arena,
		       struct sc_request *request, struct sc_err *err);
struct sc_cli_network {
	struct sc_fabric fabric;
	struct sc_span span;
	const char *device; /* its id */
};
/* The same, and what the collective model sees of it; ranks 0: all GPUs of the nodes; nodes 0: those that the
 * ranks fill. */
int sc_cli_network(const struct sc_op_cluster *given, struct sc_arena *arena,
		   struct sc_request *request, struct sc_cli_network *out, struct sc_err *err);

#endif
