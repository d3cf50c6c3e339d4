/* The reading of a simulated iteration, predicted or replayed: where the time of its GPUs goes,
 * which chain of activities decides when it ends, and what that chain is made of. */
#pragma once

#include "predict/account.h"
#include "predict/engine/critical_path.h"

enum { SC_MAX_CLASSES_SHOWN = 256, SC_MAX_PATH_SHOWN = 64, SC_MAX_CONTRIBUTORS = 64 };
/* A stretch of the critical path, with the transfers in it. */
struct sc_path_step {
	char what[48];     /* "stage 3 passes" */
	uint32_t class_id; /* the class of its first node */
	double start_ms, ms;
	double owner_ms[SC_N_OWNERS]; /* sums to ms */
	enum sc_owner owner;          /* the largest of them */
	uint8_t reason; /* enum sc_reason: why its first node could not start sooner */
};
struct sc_class_info {
	char name[48]; /* "stage 3" */
	uint32_t ranks;
	double busy_ms, idle_ms, comm_ms;
};
struct sc_contributor {
	const char *what; /* "gemm mlp h->4h forward"; lives until the next prediction */
	double ms;        /* on the critical path of the whole iteration */
	double count;
};
struct sc_reading {
	double iteration_ms;
	double from_us,
		to_us; /* of it on the timeline, which has so many steps; equal: in pieces */
	unsigned n_steps;
	uint32_t busiest; /* the class that computes or transfers longest; the first of equals */
	double breakdown_ms[SC_N_OWNERS]; /* a GPU of that class; sums to iteration_ms */
	/* that GPU's communication, hidden or not; breakdown_ms has what is exposed. 0 if brief */
	double comm_ms;
	double path_owner_ms[SC_N_OWNERS]; /* the critical path; sums to iteration_ms */
	size_t n_path, n_classes, n_contributors;
	size_t classes_left_out, ranks_left_out; /* beyond SC_MAX_CLASSES_SHOWN */
	struct sc_path_step path[SC_MAX_PATH_SHOWN];
	struct sc_class_info classes[SC_MAX_CLASSES_SHOWN];
	struct sc_contributor contributors[SC_MAX_CONTRIBUTORS]; /* largest first */
};

/* Times by the id of their cause. */
struct sc_tally_entry {
	double us, count;
};
struct sc_tally {
	SC_VEC(struct sc_tally_entry) by_id;
};
void sc_tally_add(struct sc_tally *tally, uint32_t id, double us, double count);

/* The place of a segment of the path: consecutive segments of the same `what` and place are one
 * stretch, and so are short visits to several places. */
struct sc_place {
	uint32_t what, at;
	uint32_t turn; /* turn in which it is done there: a visit of several turns is long */
	bool hops;     /* the path may go on at another place */
	bool any;      /* it goes on with whatever was before */
};
/* The part of a segment that counts, and how often. */
struct sc_path_part {
	const struct sc_segment *segment;
	double us, times;
};
struct sc_stretch {
	uint32_t what, at[2]; /* the least and the greatest */
};
/* The knowledge that only the builder of a graph has of it. */
struct sc_op_info {
	const void *ctx;
	/* Adds a part of the path to the tally. */
	void (*tally)(const void *ctx, const struct sc_path_part *part, struct sc_tally *tally);
	/* Replaces, at the end, an entry that stands for several by these; NULL: none does. */
	void (*untangle)(const void *ctx, struct sc_tally *tally);
	const char *(*tally_name)(const void *ctx, uint32_t id);
	/* Returns a node's place, `before` being that of the stretch before; NULL: no stretches. */
	struct sc_place (*place)(const void *ctx, uint32_t node, uint32_t before);
	void (*describe)(const void *ctx, const struct sc_stretch *stretch, char *buf,
			 size_t n_buf);
	void (*class_name)(const void *ctx, uint32_t class_id, char *buf, size_t n_buf);
};
struct sc_reading_input {
	struct sc_account_input account;
	struct sc_op_info info;
	uint32_t last; /* the node that ends the iteration, or SC_NONE: the last of the timeline */
	unsigned n_steps; /* that the timeline has; 0: the iteration alone */
	/* no critical path, names or communication, of a graph that runs again no busy times of
	 * classes; the rest is the same */
	bool brief;
};
/* Memory of one thread, all zero to begin with. */
struct sc_reader {
	struct sc_accountant accountant;
	struct sc_critical_path path;
	struct sc_tally tally;
};
void sc_reader_release(struct sc_reader *reader);
void sc_read_timeline(struct sc_reader *reader, const struct sc_reading_input *in,
		      struct sc_reading *out);
