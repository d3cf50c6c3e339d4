/* What other settings would do: the same config predicted again with the split, micro-batch, recomputation, sharding
 * or offload changed, one at a time and then together. Of Transformers. */
#ifndef SC_STUDY_ALTERNATIVES_H
#define SC_STUDY_ALTERNATIVES_H

#include "study/schedule/schedule_choose.h"

enum { SC_MAX_ALTERNATIVES = 26, SC_ALTERNATIVE_BYTES = 192 };
struct sc_alternative {
	char settings
		[SC_ALTERNATIVE_BYTES]; /* "parallel.tp=4 parallel.dp=2", as --set takes them */
	double iteration_ms, gain_pct;  /* of the iteration time; below 0 if it got slower */
	double memory_gib, saved_gib;   /* of the fullest GPU; below 0 if it needs more */
	double fullness;                /* sc_memory_fullness */
	bool fits;                      /* in GPUs and hosts */
};
struct sc_alternatives {
	size_t n;
	struct sc_alternative
		at[SC_MAX_ALTERNATIVES]; /* the fastest first, what does not fit last */
};
/* `base`: what ask->config is predicted as, resolved to `request`. What the config's checks refuse, and what changes
 * nothing, is left out. Rewinds `arena`. */
void sc_find_alternatives(const struct sc_schedule_ask *ask, const struct sc_request *request,
			  const struct sc_prediction *base, struct sc_arena *arena,
			  struct sc_alternatives *out);
/* It does not fit, and no alternative does. */
bool sc_alternatives_none_fits(const struct sc_alternatives *alternatives,
			       const struct sc_prediction *base);

#endif
