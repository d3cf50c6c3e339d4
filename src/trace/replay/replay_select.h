/* The recorded operations that a change applies to: terms joined by commas, all of which must hold.
 *   kernel collective p2p copy host all      what it is (host: launch gaps and calls)
 *   kernel:gemm                              and it is of that family, if there is one of the name
 *   kernel:TEXT op:TEXT collective:TEXT ...  and its name has the text in it
 *   range:TEXT                               the host's work in a range or operator with the text
 * in its name; with a kind, what was launched there: "kernel,range:backward" rank:N dp:N stage:N
 * step:N               where and when "kernel:gemm,rank:3" */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum sc_replay_kind {
	SC_REPLAY_KERNEL,
	SC_REPLAY_COLLECTIVE,
	SC_REPLAY_P2P,
	SC_REPLAY_COPY,
	SC_REPLAY_HOST,
	SC_N_REPLAY_KINDS
};

struct sc_trace_run;
/* One operation as a selector sees it. */
struct sc_replay_subject {
	enum sc_replay_kind kind;
	const char *name;             /* kernel or operation */
	const char *family;           /* "gemm", or NULL */
	int32_t rank, dp_rank, stage; /* -1 = has none */
	int64_t step;
	const struct sc_trace_run
		*run; /* of `range`, the innermost one around its call; NULL: in none */
	uint32_t range;
};
enum { SC_SELECTOR_MAX_TERMS = 8 };
struct sc_selector_term {
	uint8_t what; /* private */
	const char *text;
	int64_t number;
};
struct sc_selector {
	const char *text; /* as written */
	size_t n;
	struct sc_selector_term terms[SC_SELECTOR_MAX_TERMS];
};
/* SC_EUSAGE that names the term; texts live in the arena. */
int sc_selector_parse(const char *text, struct sc_arena *arena, struct sc_selector *out,
		      struct sc_err *err);
bool sc_selector_match(const struct sc_selector *selector, const struct sc_replay_subject *subject);
