/* What is odd about a plan, or about the constants it was made with, and costs time or memory. */
#ifndef SC_STUDY_SHARD_LINT_H
#define SC_STUDY_SHARD_LINT_H

#include "core/machine/device.h"
#include "study/shard/shard_terms.h"

struct sc_lint_limits {
	double dp_gib;         /* a larger data-parallel table is odd */
	int64_t narrow_cols;   /* narrower slices of columns are */
	double constant_ratio; /* constants this much off the device's are */
	double full_frac;      /* of a rank's budget */
};
void sc_lint_limits_init(struct sc_lint_limits *limits);
struct sc_lint {
	const char *code; /* "narrow-columns" */
	char text[256];
};
typedef SC_VEC(struct sc_lint) sc_lints;
/* Appends; findings of one kind are one entry with their count and first table. */
void sc_lint_plan(const struct sc_shard_problem *problem, const struct sc_shard_plan *plan,
		  const struct sc_shard_terms *terms, const struct sc_lint_limits *limits,
		  sc_lints *out);
/* Starts of a search that were left out because there are many tables and ranks. */
void sc_lint_starts(const struct sc_shard_problem *problem, const char *left_out, sc_lints *out);
/* Constants of TorchRec's planner against the device they stand for. */
void sc_lint_constants(const struct sc_torchrec_topology *topology, const struct sc_device *device,
		       const struct sc_lint_limits *limits, sc_lints *out);

#endif
