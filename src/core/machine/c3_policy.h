/* How a collective and the computation beside it share a GPU: policies by name, for one pair (c3)
 * and by family of collectives in whole iterations (c3.policy). */
#pragma once

#include "base/fields.h"

enum sc_c3_policy {
	SC_C3_SERIAL,             /* one after the other */
	SC_C3_PLAIN,              /* two streams of one priority, the kernel launched first */
	SC_C3_COMM_FIRST,         /* the collective gets its SMs first */
	SC_C3_RESERVE,            /* SMs are kept for the collective, whatever runs */
	SC_C3_COMM_FIRST_RESERVE, /* both; without N also none may be kept */
	SC_C3_COPY_ENGINE,        /* transfers on copy engines */
	SC_C3_COPY_ENGINE_RELIEF, /* and a memory-bound kernel on fewer SMs */
	SC_C3_CHUNKED, /* the GEMM in pieces behind or before those of the collective (async-TP) */
	SC_C3_TILE_FUSED, /* one kernel whose tiles wait for or send their part (Flux) */
	SC_N_C3_POLICIES
};
extern const struct sc_name sc_c3_policy_names[];

struct sc_c3_choice {
	enum sc_c3_policy policy;
	double n; /* SMs that are kept; of CHUNKED and COPY_ENGINE: pieces; 0 = the best split, as
		     many pieces as ranks */
};
/* Are SMs kept from kernels to the end? */
static inline bool sc_c3_keeps(const struct sc_c3_choice *choice)
{
	return choice->policy == SC_C3_RESERVE ||
	       (choice->policy == SC_C3_COMM_FIRST_RESERVE && choice->n > 0);
}
/* May a number follow it? */
static inline bool sc_c3_counts(enum sc_c3_policy policy)
{
	return policy == SC_C3_RESERVE || policy == SC_C3_COMM_FIRST_RESERVE ||
	       policy == SC_C3_CHUNKED || policy == SC_C3_COPY_ENGINE;
}
/* On copy engines? */
static inline bool sc_c3_copies(enum sc_c3_policy policy)
{
	return policy == SC_C3_COPY_ENGINE || policy == SC_C3_COPY_ENGINE_RELIEF;
}
/* "reserve:20" or "chunked". `what` begins a message, which names the nearest. */
int sc_c3_choice_parse(const char *text, const char *what, struct sc_c3_choice *out,
		       struct sc_err *err);

/* Whose collectives: tensor, context, expert and data parallelism, transfers between stages. */
enum sc_c3_family { SC_C3_TP, SC_C3_CP, SC_C3_EP, SC_C3_DP, SC_C3_PP, SC_N_C3_FAMILIES };
/* Texts as they were given, NULL = not. */
struct sc_c3_texts {
	const char *all, *family[SC_N_C3_FAMILIES];
};
extern const struct sc_field sc_c3_family_fields[]; /* of sc_c3_texts: all, tp, cp, ep, dp, pp */
