/* The place of every rank: puts tp x cp x ep x dp x pp coordinates on nodes in the given order and
 * folds ranks that cannot differ into classes (docs/decisions.md, 4). Expert groups are cut out of
 * a stage's tp x cp x dp ranks in their order: etp ranks that split an expert, then ep (Megatron
 * Core, parallel_state.py: the expert RankGenerator). */
#pragma once

#include "base/arena.h"
#include "core/config/config.h"
#include "core/graph/graph.h"
#include "models/collective/collective.h"

enum sc_axis { SC_AXIS_TP, SC_AXIS_CP, SC_AXIS_EP, SC_AXIS_DP, SC_AXIS_PP, SC_N_AXES };

/* A run of ranks on GPUs of one kind. */
struct sc_gpu_run {
	uint32_t n_ranks;
	uint8_t kind;
	double speed; /* in any unit: of kinds that cannot be kept apart the slowest is taken */
};
struct sc_layout {
	int64_t size[SC_N_AXES]; /* ep: size of an expert group (1 = none) */
	int64_t etp;             /* ranks that split an expert: neighbours, innermost; 0 = tp */
	const char *order;       /* "tp-cp-ep-dp-pp", innermost (fastest varying) first */
	int64_t gpus_per_node;
	const struct sc_straggler *stragglers;
	size_t n_stragglers;
	const struct sc_gpu_run *runs; /* a mixed cluster's, in rank order; else NULL */
	size_t n_runs;
	bool unfolded; /* every rank is its own class: for tests and small graphs */
};
/* The group of one axis that a class's ranks are in. All ranks of a class have groups of the same
 * span and the same members by class. DP here is the gradient group: all ranks with the same tp and
 * pp (cp x dp together, as frameworks reduce over both). */
struct sc_axis_group {
	struct sc_span span;
	uint32_t first_member, n_members; /* in members[]: (class, count) */
	uint32_t instance; /* classes of one folded group share this id, unique over all axes */
};
struct sc_rank_class {
	int stage;
	uint32_t multiplicity;
	uint32_t nic_domain;         /* classes that share nodes share it */
	double ranks_per_domain;     /* ranks of this class on one node */
	double stage_ranks_per_node; /* of all classes on its node: they use the NICs alike */
	double slowdown;
	uint8_t kind;                           /* its GPU's; 0 unless the cluster is mixed */
	uint32_t representative;                /* its lowest rank */
	struct sc_axis_group group[SC_AXIS_PP]; /* tp, cp, ep, dp */
	/* Pipeline neighbours (wrap around: the last stage's next is stage 0, for interleaving),
	 * and whether they are on another node. Only meaningful if pp > 1. */
	uint32_t next_class, prev_class;
	bool next_remote, prev_remote;
};
struct sc_placement {
	struct sc_rank_class *classes; /* ordered by stage, then representative */
	size_t n_classes;
	struct sc_member *members;
	size_t n_members;
	size_t n_instances;
	uint32_t world;
	bool is_approximate; /* too many classes: there is one a stage, with its worst groups */
};
/* Folds ranks into the coarsest classes in which they agree on: stage, slowdown, kind of GPU, the
 * span of each group, the classes (with counts) of each group's members, of the pipeline
 * neighbours, and of the node's ranks. Regular layouts take time O(stages). Others take O(ranks) as
 * often as classes split; where that would be more than max(1024, 4 pp) classes, as with pipelines
 * whose stages sit askew on their nodes, is_approximate is set instead. */
int sc_placement_build(const struct sc_layout *layout, struct sc_arena *arena,
		       struct sc_placement *out, struct sc_err *err);
