/* What the traces of a run say of its nodes: the GPUs of one, and whether the run was on several. Nothing is
 * guessed from the number of ranks. */
#include <stdio.h>
#include <string.h>

#include "trace/graph/build_trace_priv.h"

/* Profilers list all devices of the host, which are taken to be alike. In a container of one GPU that is one, which says
 * nothing of the node. */
void sc_trace_load_node(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	int32_t n = 0;

	load->rank->host = sc_arena_strdup(&load->run->arena, t->identity.host);
	load->rank->gpu = "";
	for (size_t i = 0; i < t->meta.n; i++) {
		const char *key = t->meta.at[i].key;
		const char *dot = strncmp(key, "device.", 7) == 0 ? strchr(key + 7, '.') : NULL;

		if (!dot || strcmp(dot, ".name") != 0)
			continue;
		if (n++ == 0)
			load->rank->gpu = sc_arena_strdup(&load->run->arena, t->meta.at[i].value);
	}
	if (n > 1 && n > load->run->node_gpus)
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
