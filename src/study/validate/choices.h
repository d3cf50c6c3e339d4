/* Tells whether predictions choose the split that was measured as the best. Rows of a table that
 * differ in nothing but how the work is split are the candidates of a choice: the one of the least
 * predicted time is taken, and judged by its measured time. */
#pragma once

#include "study/validate/validate.h"

/* A decision is a model on so many GPUs. Its choices at several batches are repeats: one vote. */
struct sc_choice {
	const char *suite;
	size_t n_repeats, n_won; /* won: at most SC_CHOICE_WON above the best */
	double loss;             /* of what was chosen, over the best: the mean of the repeats */
	/* The repeat of the largest loss chose this. */
	const struct sc_case *chosen, *best;
	size_t n_splits;
};
#define SC_CHOICE_WON 0.03
struct sc_choices {
	struct sc_choice *at; /* by suite, then as the cells sort */
	size_t n, n_suites;
	/* Suites weigh alike, within one its decisions. */
	double won_pct;
	double gain_pct; /* of the time between the worst split and the best, what the choices save;
			    both over the best */
};
/* Finds the choices among the cases that were predicted; the same split measured twice counts with
 * its mean. The columns of a split are parallel.*, training.micro_batch, training.recompute* and
 * training.offload.*; other keys, `gpus`, `model` and the suite make the decision,
 * training.global_batch a repeat of it. Without one choice n is 0, and the shares NAN. */
void sc_choices_find(const struct sc_validation *validation, struct sc_arena *arena,
		     struct sc_choices *out);
