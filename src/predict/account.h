/* The account of one GPU (class of ranks): where its time goes, lane by lane. Each moment goes to
 * the first of these that is true of it: it computes, copies, transfers, waits for another stage,
 * for its peers, for the host; else it is done. Every share is the measure of a set of times, so
 * that it changes little when the timeline does. */
#pragma once

#include <stdbool.h>

#include "base/vec.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"

/* The reason why a member of a group waits for the others. */
enum sc_wait {
	SC_WAIT_PEERS,
	SC_WAIT_STAGE,  /* another stage of the pipeline */
	SC_WAIT_POSTED, /* another stage, asked for early: counts if nothing else explains it */
	SC_N_WAITS
};
typedef enum sc_wait (*sc_wait_fn)(const void *ctx, uint32_t node);

/* A graph that ran. */
struct sc_ran {
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	sc_wait_fn wait; /* NULL: all wait for peers */
	const void *ctx; /* borrowed by `wait` */
};

enum sc_doing_kind {
	SC_DOES_COMPUTE,
	SC_DOES_COPY,
	SC_DOES_TRANSFER,
	SC_N_WORKS,
	SC_DOES_WAIT = SC_N_WORKS,               /* waits for peers; then as enum sc_wait */
	SC_DOES_GAP = SC_DOES_WAIT + SC_N_WAITS, /* a gap that something explains */
	SC_DOES_NOTHING,                         /* a gap that nothing explains */
	SC_DOES_HOST,
	SC_N_DOINGS
};
struct sc_doing {
	double from_us, to_us;
	uint32_t node;
};
struct sc_doing_list {
	SC_VEC(struct sc_doing) all;
	SC_VEC(uint32_t) runs; /* the start of each lane's run; with one run all are in order */
	size_t n_in_runs;
};
/* One thread's memory, zero to begin with: what the lanes of a class do and wait for, by kind. */
struct sc_doings {
	struct sc_doing_list kinds[SC_N_DOINGS];
	SC_VEC(struct sc_doing) merged;
	SC_VEC(uint32_t) class_start, lane; /* each class's first entry in `lane`, and the end */
	uint32_t class_id;                  /* the class whose work it is, or SC_NONE */
};

/* The parts into which an account divides the time. */
enum sc_part {
	SC_PART_COMPUTE,
	SC_PART_MEMORY,   /* copies and sets that no computation hides */
	SC_PART_COMM,     /* transfers that nothing on the GPU hides */
	SC_PART_PIPELINE, /* waits for another stage */
	SC_PART_PEERS,    /* waits for others to join a collective */
	SC_PART_HOST,     /* launch gaps, host work */
	SC_PART_DONE,     /* done before the others, or not begun */
	SC_N_PARTS
};
/* A stretch of a timeline that stands for several that are equal. */
struct sc_repeat {
	double from_us, to_us;
	double n; /* times beyond the one that is there */
};
/* The iteration on a timeline, with the stretches that stand for several. */
struct sc_period {
	double from_us, to_us;
	const struct sc_repeat *repeats;
	size_t n_repeats;
	bool is_quantized; /* made of quantized durations, as the whole then is (sc_quantize_us) */
};
/* Returns how much of [from_us, to_us] lies in [begin_us, end_us]. */
static inline double sc_overlap_us(double from_us, double to_us, double begin_us, double end_us)
{
	const double from = from_us > begin_us ? from_us : begin_us;
	const double to = to_us < end_us ? to_us : end_us;

	return to > from ? to - from : 0;
}
/* Returns the part of [from_us, to_us] that is in the period, repeats included. */
static inline double sc_period_us(const struct sc_period *p, double from_us, double to_us)
{
	double us = sc_overlap_us(from_us, to_us, p->from_us, p->to_us);

	for (size_t i = 0; i < p->n_repeats; i++)
		us += p->repeats[i].n *
		      sc_overlap_us(from_us, to_us, p->repeats[i].from_us, p->repeats[i].to_us);
	return us;
}

struct sc_account {
	double part_us[SC_N_PARTS], owner_us[SC_N_OWNERS]; /* each sums to the period */
};
/* The time that any lane of a class does something. */
struct sc_use {
	double busy_us;   /* computes or copies */
	double comm_us;   /* transfers, hidden or not */
	double active_us; /* either */
};
struct sc_account_input {
	struct sc_ran ran;
	struct sc_period period;
	const double *begin_us, *end_us; /* by class, idle before and after; NULL: the period's */
	bool staged;                     /* whether a GPU that is done waits for other stages */
	/* Each class's own copy of every stretch, shorter where it does its work in less: for the
	 * rest it waits for others. NULL: all take as long. */
	const struct sc_repeat *own;
};
struct sc_idle {
	double from_us, to_us;
	uint32_t next; /* the node that the GPU computes after it, or SC_NONE */
};
struct sc_idles { /* an SC_VEC */
	struct sc_idle *at;
	size_t n, cap;
};
/* Memory of one thread, all zero to begin with. */
struct sc_accountant {
	const struct sc_account_input *in;
	struct sc_period period; /* of the class that is asked about */
	struct sc_doings doings;
	SC_VEC(double) launched_us; /* by node of the class: when the host let it start, or 0 */
	struct sc_idles idle, left;
};
void sc_accountant_release(struct sc_accountant *accountant);
/* Borrows `in`, whose graph is sealed. */
void sc_accountant_begin(struct sc_accountant *accountant, const struct sc_account_input *in);
/* Adds to each class the time that others waited for it to arrive. */
void sc_add_late(const struct sc_ran *ran, double *late_us);
void sc_use_of_class(struct sc_accountant *accountant, uint32_t class_id, struct sc_use *out);
/* Returns active_us of it alone, but for the rounding of its sum; of a graph with notes. */
double sc_active_of_class_us(struct sc_accountant *accountant, uint32_t class_id);
/* Returns all that a class communicates, hidden or not, within coarse nodes too. */
double sc_comm_of_class_us(struct sc_accountant *accountant, uint32_t class_id);
void sc_account_of_class(struct sc_accountant *accountant, uint32_t class_id,
			 struct sc_account *out);
