#include "cli/search_args.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

enum { MAX_GPUS = 1 << 24, MAX_TEXT = 24 };

int sc_cli_parse_gpus(const char *text, int64_t *from, int64_t *to, struct sc_err *err)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	char first[MAX_TEXT];

	if (!text)
		return sc_err_set(err, SC_EUSAGE, "scale needs --gpus FROM:TO, as 64:2048");
	if (colon && colon - text < MAX_TEXT) {
		snprintf(first, sizeof(first), "%.*s", (int)(colon - text), text);
		if (sc_parse_int(first, from) && sc_parse_int(colon + 1, to) && *from >= 1 &&
		    *to >= *from && *to <= MAX_GPUS)
			return 0;
	}
	return sc_err_set(err, SC_EUSAGE, "--gpus: expected FROM:TO, as 64:2048, got \"%.64s\"",
			  text);
}

struct sc_arg_list sc_cli_join(const struct sc_arg_list *a, const struct sc_arg_list *b,
			       struct sc_arena *arena)
{
	struct sc_arg_list out = {sc_arena_calloc(arena, a->n + b->n + 1, sizeof(*out.at)), 0};

	for (size_t i = 0; i < a->n + b->n; i++)
		out.at[out.n++] = i < a->n ? a->at[i] : b->at[i - a->n];
	return out;
}

void sc_cli_open_split(struct sc_config *config)
{
	config->parallel.dp = config->parallel.etp = config->parallel.shard_ranks = SC_NOT_GIVEN;
	config->parallel.stage_layers.n = 0;
	config->parallel.layout = NULL;
}
