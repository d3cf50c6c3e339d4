/* What the lanes of one GPU (class of ranks) do and wait for, kind by kind, each in the order of time. */
#ifndef SC_PREDICT_DOINGS_H
#define SC_PREDICT_DOINGS_H

#include <stdbool.h>

#include "base/vec.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"

/* What a member of a group waits for when it waits for the others. */
enum sc_wait {
	SC_WAIT_PEERS,
	SC_WAIT_STAGE, /* another stage of the pipeline */
	SC_WAIT_POSTED, /* the same, asked for long before it is needed: counts when nothing else explains */
	SC_N_WAITS
};
typedef enum sc_wait (*sc_wait_fn)(const void *ctx, uint32_t node);

/* A graph that ran. */
struct sc_ran {
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	sc_wait_fn wait;
	const void *ctx; /* of `wait` */
};

enum sc_doing_kind {
	SC_DOES_COMPUTE,
	SC_DOES_COPY,
	SC_DOES_TRANSFER,
	SC_N_WORKS,
	SC_DOES_WAIT = SC_N_WORKS,               /* for peers; then as enum sc_wait */
	SC_DOES_GAP = SC_DOES_WAIT + SC_N_WAITS, /* one that something explains */
	SC_DOES_NOTHING,                         /* one that nothing does */
	SC_DOES_HOST,
	SC_N_DOINGS
};
struct sc_doing {
	double from_us, to_us;
	uint32_t node;
};
struct sc_doing_list {
	SC_VEC(struct sc_doing) all;
	SC_VEC(uint32_t) runs; /* where each lane's begin; one run: all are in order */
	size_t n_in_runs;
};
/* Memory of one thread: all zero to begin with. */
struct sc_doings {
	struct sc_doing_list kinds[SC_N_DOINGS];
	SC_VEC(struct sc_doing) merged;
	SC_VEC(uint32_t) class_start, lane; /* of each class in `lane`, and the end; by class */
	uint32_t class_id;                  /* whose work it is, or SC_NONE */
};
void sc_doings_release(struct sc_doings *doings);
/* Sorts the lanes of a sealed graph. */
void sc_doings_begin(struct sc_doings *doings, const struct sc_graph *graph);
/* Collects what a class of that graph computes, copies and transfers; */
void sc_doings_work(struct sc_doings *doings, const struct sc_ran *ran, uint32_t class_id);
/* and its waits, its gaps and what its host does. */
void sc_doings_waits(struct sc_doings *doings, const struct sc_ran *ran, uint32_t class_id);
/* One kind in the order of time: borrowed until the next class. */
const struct sc_doing_list *sc_doings_in_order(struct sc_doings *doings, enum sc_doing_kind kind);

#endif
