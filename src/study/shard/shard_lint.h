/* Finds what is odd about a plan, or about the constants it was made with, and costs time or
 * memory. */
#pragma once

#include "core/machine/device.h"
#include "study/shard/shard_terms.h"

struct sc_lint {
	const char *code; /* "narrow-columns" */
	char text[256];
};
typedef SC_VEC(struct sc_lint) sc_lints;
/* Appends findings; those of one kind are one entry with their count and first table. */
void sc_lint_plan(const struct sc_shard_problem *problem, const struct sc_shard_plan *plan,
		  const struct sc_shard_terms *terms, sc_lints *out);
/* Compares the constants of TorchRec's planner with the device they stand for. */
void sc_lint_constants(const struct sc_torchrec_topology *topology, const struct sc_device *device,
		       sc_lints *out);
