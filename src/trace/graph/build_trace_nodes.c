/* What the traces of a run say of its nodes: the GPUs of one, and whether the run was on several. Nothing is
 * guessed from the number of ranks. */
#include <stdio.h>
#include <string.h>

#include "trace/graph/build_trace_priv.h"

/* Profilers list all devices of the host. In a container of one GPU that is one, which says nothing. */
static int32_t listed_devices(const struct sc_trace *trace)
{
	int32_t n = 0;

	for (size_t i = 0; i < trace->meta.n; i++) {
		const char *key = trace->meta.at[i].key, *dot;

		if (strncmp(key, "device.", 7) != 0)
			continue;
		dot = strchr(key + 7, '.');
		n += dot && strcmp(dot, ".name") == 0;
	}
	return n > 1 ? n : 0;
}

void sc_trace_load_node(struct rank_load *load)
{
	const int32_t n = listed_devices(&load->trace);

	load->rank->host = sc_arena_strdup(&load->run->arena, load->trace.identity.host);
	if (n > load->run->node_gpus)
		load->run->node_gpus = n;
}

void sc_trace_find_nodes(struct sc_trace_run *run)
{
	const int32_t listed = run->node_gpus;
	int32_t most = 0;

	for (size_t a = 0; a < run->ranks.n; a++) {
		const char *host = run->ranks.at[a].host;
		int32_t n = 0;

		for (size_t b = 0; b < run->ranks.n && *host; b++) {
			const char *other = run->ranks.at[b].host;

			n += strcmp(host, other) == 0;
			run->spans_nodes = run->spans_nodes || (*other && strcmp(host, other) != 0);
		}
		most = n > most ? n : most;
	}
	run->spans_nodes = run->spans_nodes || (listed > 0 && run->world > listed);
	if (listed == 0 && most > 0 && most == run->world)
		run->node_gpus = most;
}
