/* The engine's own state. Two ways to run a node meet here:
 * - what cannot contend is followed as data flows (simulate.c): its end is known once it is ready;
 * - what may contend is an activity that goes through events in time order (simulate_events.c), is
 *   given SMs by space (simulate_sms.c), and a rate by max-min fairness (simulate_rates.c).
 * Flowing ahead of the events' time is safe: it touches nothing that is shared. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "predict/engine/simulate.h"

/* Shares closer than this are equal: 1e-9 of all SMs or of a link is far below one SM or any
 * measurement, and far above the rounding of a few hundred additions. */
#define SIM_EPS 1e-9
/* The rounding that is allowed when two levels of progressive filling are compared, relative. */
#define SIM_EPS_LEVEL 1e-12

enum sim_contends {
	SIM_ANY = 1, /* the cost has a demand */
	SIM_SM = 2,  /* the demand is on SMs */
	SIM_OWN = 4, /* a kernel asks for no more than its class has to itself */
};
enum sim_kind {
	SIM_KERNEL, /* a node that is no member */
	SIM_MEMBER, /* a member's hold on its SMs, from its arrival to the group's end */
	SIM_GROUP,  /* the data phase of a group */
};
enum sim_state {
	SIM_FREE,
	SIM_ARRIVING, /* ready at a time that has not come yet */
	SIM_QUEUED,   /* waits for SMs */
	SIM_HOLDING,  /* a member that has its SMs */
	SIM_LATENCY,
	SIM_WORKING,
};

struct sim_act {
	const struct sc_cost *cost;
	double latency_us, work_us;    /* slowdown included */
	double remaining_us, since_us; /* work left at since_us */
	double rate, cap;              /* cap: granted / wanted SMs */
	double new_rate;               /* while solving; < 0 = not frozen yet */
	double sm_want, sm_got;
	double wave_from; /* work done when the SMs last changed; waves count from there */
	uint64_t stamp;   /* last component that it was visited for; the solve that set its rate */
	uint64_t solved;
	uint32_t part;             /* index in part_acts while solving */
	uint32_t bound, new_bound; /* the resource that limits its rate; SC_NONE: its cap */
	uint32_t id;               /* node, or group */
	uint32_t class_id;
	uint32_t first_use;
	uint32_t heap_pos;           /* or SC_NONE */
	uint32_t next;               /* free list, SM queue or the group's holders */
	uint32_t run_next, run_prev; /* resizable kernels of the class, or its copiers */
	int8_t priority;
	uint8_t kind, state;
	uint8_t comes_later;    /* it was requested before it arrives */
	uint8_t started;        /* a kernel in the queue that lost its SMs while it ran */
	uint8_t wants_boundary; /* its SMs should change at the next wave boundary */
	uint8_t at_boundary;    /* its scheduled event is that boundary */
	uint8_t boundary_due;   /* it stands at that boundary now */
};
/* One activity's load on one resource. */
struct sim_use {
	double load;
	uint32_t res, act;
	uint32_t next_in_act;
	uint32_t next_in_res, prev_in_res;
};
struct sim_res {
	double load;       /* while solving: capacity not frozen, load of users not frozen; */
	double left, open; /* the level at which it stops them */
	double level;      /* while solving: where the resource stops them */
	uint64_t stamp;
	uint32_t first; /* a use */
	uint8_t dirty;
};
struct sim_sm {
	double free;
	double released_us; /* time of the last return of SMs, and its node (lowest id) */
	uint32_t released_by;
	uint32_t n_holders;
	uint32_t queue;     /* by priority, then time of readiness, then node */
	uint32_t resizable; /* started kernels whose SMs may change, in the same order */
	uint32_t copiers;   /* members of collectives that kernels slow, by run_next */
	uint8_t dirty;
};
struct sim_group {
	double last_us; /* latest arrival so far, and its node (lowest on a tie) */
	uint32_t last_node;
	uint32_t n_arrived;
	uint32_t holders; /* SIM_MEMBER activities */
	uint32_t act;     /* its data phase while at work, or SC_NONE */
};
struct sim_event {
	double at_us;
	uint32_t act;
};
/* A level that stops an activity (its cap), or all that use a resource. */
struct sim_limit {
	double level;
	uint32_t id;
	bool is_act;
};
/* Borrowed arrays of the graph and the timeline, side by side for the inner loop. While a node has
 * open deps, start_us holds minus their number; end_us is < 0 until the node is done. */
struct sim_flow {
	const struct sc_node *node;
	const struct sc_cost *cost;
	const struct sc_lane *lane;
	const struct sc_class *class;
	const uint32_t *succ_start, *succ, *lane_next;
	const uint8_t *contends; /* by cost; NULL = nothing contends */
	double *ready_us, *start_us, *end_us;
	uint32_t *bound_by;
	uint8_t *reason;
	uint32_t *stack; /* ready nodes: at most one a lane */
	int slowed;      /* a class has a slowdown */
};

typedef SC_VEC(uint32_t) sim_ids;
struct sc_simulator {
	const struct sc_graph *graph;
	struct sim_flow flow;
	size_t n_stack, n_done;
	double total_us;
	SC_VEC(struct sim_group) groups; /* by group */
	SC_VEC(uint8_t) contends;        /* by cost: enum sim_contends */
	sim_ids stack;
	/* `busy` counts, by class, nodes that may contend and are ready, and members until their
	 * group is done. It is not kept
	 * (`apart` is unset) where classes may meet otherwise than in groups. */
	sim_ids busy, ready;
	bool apart;

	double now_us;
	SC_VEC(struct sim_act) acts;
	SC_VEC(struct sim_use) uses;
	uint32_t free_act, free_use; /* heads of the free lists */
	SC_VEC(struct sim_event) heap;
	sim_ids due; /* activities whose event is now */
	sim_ids dirty_acts, dirty_res, dirty_sm;
	sim_ids part_acts, part_res; /* the component being solved */
	SC_VEC(struct sim_limit) limits, beyond;
	sim_ids stopped;     /* indices in part_acts */
	struct sim_res *res; /* SC_N_RES for each class, then a NIC for each domain */
	struct sim_sm *sm;   /* one for each class */
	size_t cap_res, cap_sm;
	uint64_t stamp, solve; /* of components, of solves */
	int unclean;           /* a run was left before its end: res and sm must be set up again */

	const volatile sig_atomic_t *stop;
	/* Tests look at every set of rates, after each solve. */
	sc_simulator_watch *observe;
	void *observe_ctx;
};

static inline bool sc_sim_is_stopped(const struct sc_simulator *sim)
{
	return sim->stop && *sim->stop;
}

static inline uint32_t sc_sim_class_of(const struct sc_simulator *sim, uint32_t node)
{
	return sim->flow.lane[sim->flow.node[node].lane].class_id;
}

/* Returns the work that is left of an activity whose rate has not changed since it was settled. */
static inline double sc_sim_act_left(const struct sim_act *act, double now_us)
{
	const double left_us = act->remaining_us - act->rate * (now_us - act->since_us);

	return left_us < 0 ? 0 : left_us;
}

/* simulate.c */
void sc_sim_flow_ready(struct sc_simulator *sim); /* runs until no ready node is left */
void sc_sim_node_done(struct sc_simulator *sim, uint32_t node, double end_us);
void sc_sim_member_arrived(struct sc_simulator *sim, uint32_t node, double at_us);
void sc_sim_group_done(struct sc_simulator *sim, uint32_t group, double end_us);

/* simulate_walk.c: begins a run with all that flows, by the graph's notes; false: it has not begun.
 */
bool sc_sim_walk(struct sc_simulator *sim);

/* simulate_sms.c */
void sc_sim_sm_enqueue(struct sc_simulator *sim, uint32_t id);
void sc_sim_sm_release(struct sc_simulator *sim, uint32_t id);
/* Lets the first class give a kernel SMs and have them back. */
void sc_sim_sm_pass(struct sc_simulator *sim, uint32_t node, double sms, double want);
void sc_sim_sm_touch(struct sc_simulator *sim, uint32_t class_id); /* its grants may change */
void sc_sim_sm_update(struct sc_simulator *sim); /* grants SMs on every class that changed */
/* Returns when a running kernel comes to its next wave boundary: HUGE_VAL in the last wave. */
double sc_sim_boundary_us(const struct sim_act *act, double now_us);
void sc_sim_slow_copier(struct sc_simulator *sim, uint32_t group);
void sc_sim_unlink_copier(struct sc_simulator *sim, uint32_t id);

/* simulate_events.c */
void sc_sim_act_start(struct sc_simulator *sim, uint32_t id); /* it has its SMs */
void sc_sim_events_begin(struct sc_simulator *sim);
void sc_sim_events_run(struct sc_simulator *sim);
void sc_sim_request(struct sc_simulator *sim, enum sim_kind kind, uint32_t id, double at_us);
void sc_sim_act_reschedule(struct sc_simulator *sim,
			   uint32_t id); /* after its rate or SMs changed */
void sc_sim_act_settle(struct sim_act *act, double now_us);

/* simulate_rates.c */
void sc_sim_rates_enter(struct sc_simulator *sim, uint32_t id);
void sc_sim_rates_leave(struct sc_simulator *sim, uint32_t id);
void sc_sim_rates_touch(struct sc_simulator *sim, uint32_t id); /* its cap has changed */
void sc_sim_rates_solve(struct sc_simulator *sim);
void sc_sim_rates_forget(struct sc_simulator *sim); /* nothing is to be solved */
void sc_sim_rates_set(struct sc_simulator *sim, uint32_t id, double rate);
/* Lets a load come to a resource and go. */
void sc_sim_rates_pass(struct sc_simulator *sim, uint32_t res, double load);

/* simulate_beside.c */
/* Runs a kernel that is ready, or arrives now, and lets what its end makes ready flow next; false:
 * events must decide. */
bool sc_sim_runs_beside(struct sc_simulator *sim, uint32_t node);
/* Says whether a group whose members are there has its GPU to itself until it ends, and when. */
bool sc_sim_group_alone(const struct sc_simulator *sim, uint32_t group, double *end_us);
