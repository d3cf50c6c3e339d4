/* Sensitivities and alternatives: the same request is predicted again with one resource faster, and
 * the same config with other settings. */
#pragma once

#include "study/evaluate/evaluate.h"

enum { SC_N_WHAT_IFS = 5 };
struct sc_what_if {
	const char *resource; /* "gemm", "hbm", "link", "nic", "host" */
	const char *meaning;  /* "10 % faster GEMMs and attention" */
	double iteration_ms;
	double gain_pct; /* of the iteration time; below 0 if it got slower */
};
struct sc_explanation {
	double speed; /* 1.1 = each resource 10 % faster, one at a time */
	struct sc_what_if what_if[SC_N_WHAT_IFS];
};
/* The base is the evaluator's last candidate. */
int sc_explain(const struct sc_evaluator *base, struct sc_explanation *out, struct sc_err *err);

/* Predicts the same Transformer again with its split, micro-batch, recomputation, sharding or
 * offload changed, one at a time and then together. */
enum { SC_MAX_ALTERNATIVES = 32, SC_ALTERNATIVE_BYTES = 192 };
struct sc_alternative {
	char settings[SC_ALTERNATIVE_BYTES]; /* "parallel.tp=4 parallel.dp=2", as for --set */
	double floor_ms;                     /* below iteration_ms */
	/* The iteration time, and its gain over the base's, below 0 if it got slower. NAN: neither
	 * it nor the config fits, and it was not predicted. */
	double iteration_ms, gain_pct;
	double memory_gib, saved_gib; /* of the fullest GPU; below 0 if it needs more */
	double fullness;              /* sc_memory_fullness */
	bool fits; /* in GPUs, with the margin that a search keeps, and in hosts */
};
struct sc_alternatives {
	size_t n;
	struct sc_alternative at
		/* fastest first, those that do not fit last; without times nearest to fitting */
		[SC_MAX_ALTERNATIVES];
};
/* `base` has evaluated the config last. Alternatives that the config's checks refuse, or that
 * change nothing, are left out. */
void sc_find_alternatives(const struct sc_evaluator *base, const struct sc_config *config,
			  const char *file, struct sc_alternatives *out);
