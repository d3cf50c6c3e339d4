/* Finds runs that are not like their kin, by the measured times alone. Kin are runs of one table
 * that differ in nothing but the number of replicas, how these share their states, and the batch: a
 * micro-batch takes all of them about as long. */
#pragma once

#include "study/validate/validate.h"

/* A run of two micro-batches or more is unlike if each takes it over twice as long as the fastest
 * of its kin, itself left out. sc_kin_find sets their `kin` and `over_kin`, and n_unlike. */
#define SC_KIN_FACTOR 2.0
int sc_kin_find(const struct sc_config *base, struct sc_arena *arena,
		struct sc_validation *validation, struct sc_err *err);
