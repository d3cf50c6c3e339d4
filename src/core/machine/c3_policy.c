/* Names of policies and families, and what follows a colon. */
#include "core/machine/c3_policy.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

const struct sc_name sc_c3_policy_names[] = {
	{"serial", SC_C3_SERIAL},
	{"plain", SC_C3_PLAIN},
	{"comm_first", SC_C3_COMM_FIRST},
	{"reserve", SC_C3_RESERVE},
	{"comm_first+reserve", SC_C3_COMM_FIRST_RESERVE},
	{"copy_engine", SC_C3_COPY_ENGINE},
	{"copy_engine+cache_relief", SC_C3_COPY_ENGINE_RELIEF},
	{"chunked", SC_C3_CHUNKED},
	{"tile_fused", SC_C3_TILE_FUSED},
	{0},
};
enum { MAX_N = 4096 };

#define FAMILY(key_, family_, text)                                                                \
	{                                                                                          \
		.key = key_, .type = SC_F_STR,                                                     \
		.offset = offsetof(struct sc_c3_texts, family) + (family_) * sizeof(const char *), \
		.help = text                                                                       \
	}
const struct sc_field sc_c3_family_fields[] = {
	SC_FIELD(STR, sc_c3_texts, all, "of every family that can have it"),
	FAMILY("tp", SC_C3_TP, "tensor-parallel collectives"),
	FAMILY("cp", SC_C3_CP, "context-parallel transfers"),
	FAMILY("ep", SC_C3_EP, "expert-parallel exchanges"),
	FAMILY("dp", SC_C3_DP, "gradients and sharded weights"),
	FAMILY("pp", SC_C3_PP, "transfers between stages"),
	{0},
};

int sc_c3_choice_parse(const char *text, const char *what, struct sc_c3_choice *out,
		       struct sc_err *err)
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	double number = 0;

	for (const struct sc_name *p = sc_c3_policy_names; p->name; p++) {
		bool counts = sc_c3_counts((enum sc_c3_policy)p->value);

		if (strlen(p->name) != n || strncmp(text, p->name, n) != 0)
			continue;
		if (colon && (!counts || !sc_parse_double(colon + 1, &number) || number < 1 ||
			      number > MAX_N))
			return sc_err_set(err, SC_EVALUE,
					  "%s\"%.64s\": a number from 1 to %d may follow reserve:, "
					  "comm_first+reserve:, copy_engine: and chunked:",
					  what, text, MAX_N);
		*out = (struct sc_c3_choice){(enum sc_c3_policy)p->value, floor(number)};
		return 0;
	}
	const char *known[SC_N_C3_POLICIES], *nearest;
	char word[32];

	for (int i = 0; i < SC_N_C3_POLICIES; i++)
		known[i] = sc_c3_policy_names[i].name;
	n = n < sizeof(word) ? n : sizeof(word) - 1;
	memcpy(word, text, n);
	word[n] = '\0';
	nearest = sc_nearest(word, known, SC_N_C3_POLICIES);
	if (nearest)
		return sc_err_set(err, SC_EVALUE,
				  "%sunknown policy \"%.64s\"; did you mean \"%s\"?", what, text,
				  nearest);
	return sc_err_set(
		err, SC_EVALUE,
		"%sunknown policy \"%.64s\"; known: serial, plain, comm_first, reserve[:N], "
		"comm_first+reserve[:N], copy_engine[:N], copy_engine+cache_relief, chunked[:N], "
		"tile_fused",
		what, text);
}
