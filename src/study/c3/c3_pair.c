/* Predicts a pair under a policy: a small execution graph, run by the engine of all others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "predict/engine/simulate.h"
#include "study/c3/c3_priv.h"

const struct sc_name sc_c3_kind_names[] = {
	{"independent", SC_C3_INDEPENDENT},
	SC_C3_DEPENDENT_KINDS,
	{0},
};

bool sc_c3_kind_of(int value, enum sc_collective collective, enum sc_c3_kind *out)
{
	static const unsigned fits[] = {
		[SC_C3_INDEPENDENT] = ~0u,
		[SC_C3_GATHER_GEMM] = 1 << SC_ALL_GATHER | 1 << SC_ALL_TO_ALL,
		[SC_C3_GEMM_SCATTER] =
			1 << SC_REDUCE_SCATTER | 1 << SC_ALL_REDUCE | 1 << SC_ALL_TO_ALL,
		[SC_C3_DISPATCH_EXPERTS] = 1 << SC_ALL_TO_ALL,
		[SC_C3_EXPERTS_COMBINE] = 1 << SC_ALL_TO_ALL,
	};

	*out = (enum sc_c3_kind)(value & 0xff);
	return value == (int)*out ? fits[*out] >> collective & 1
				  : value >> 8 == (int)collective + 1;
}

const char *sc_c3_kind_name(enum sc_c3_kind kind, enum sc_collective collective)
{
	const int with = SC_C3_KIND_WITH((int)kind, (int)collective);

	for (const struct sc_name *n = sc_c3_kind_names; n->name; n++)
		if (n->value == with)
			return n->name;
	return sc_enum_name(sc_c3_kind_names, (int)kind);
}

/* The rounding of sums of times. */
#define ROUNDING 1e-12

struct sc_c3_study *sc_c3_study_create(void)
{
	struct sc_c3_study *study = sc_xmalloc(sizeof(*study));

	memset(study, 0, sizeof(*study));
	study->sim = sc_simulator_create();
	sc_graph_init(&study->graph);
	return study;
}

void sc_c3_study_destroy(struct sc_c3_study *study)
{
	if (!study)
		return;
	sc_simulator_destroy(study->sim);
	sc_graph_release(&study->graph);
	sc_timeline_release(&study->timeline);
	SC_VEC_RELEASE(&study->squeezed);
	free(study);
}

/* ---- limits over time ---- */

const char *const sc_c3_limit_names[] = {
	[SC_RES_SM] = "sm",        [SC_RES_HBM] = "hbm",
	[SC_RES_L2] = "l2",        [SC_RES_LINK] = "link",
	[SC_RES_PCIE] = "pcie",    [SC_RES_NIC] = "nic",
	[SC_RES_COPY] = "copy",    [SC_RES_HOST] = "host",
	[SC_C3_NO_LIMIT] = "none", [SC_C3_SEVERAL_LIMITS] = "several",
};

/* Ends the limit so far now, unless the new one is the same. */
static void see_limit(void *ctx, const struct sc_simulator *sim, double now_us)
{
	struct sc_c3_limits *l = ctx;
	const int what = (int)sc_simulator_limit(sim, 0);

	if (l->n)
		l->at[l->n - 1].until_us = now_us;
	if (l->n && l->at[l->n - 1].what == what)
		return;
	if (l->n && l->at[l->n - 1].until_us <= (l->n > 1 ? l->at[l->n - 2].until_us : 0))
		l->n--; /* it held no time */
	if (l->n && l->at[l->n - 1].what == what)
		return;
	if (l->n < SC_C3_MAX_LIMITS)
		l->at[l->n++].what = what;
	else
		l->at[l->n - 1].what = SC_C3_SEVERAL_LIMITS;
}

/* ---- graphs ---- */

void sc_c3_begin(struct sc_c3_study *s)
{
	struct sc_class rank = {.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1};

	sc_graph_clear(&s->graph);
	sc_graph_add_class(&s->graph, rank);
	s->compute = sc_graph_add_lane(&s->graph, 0, SC_LANE_COMPUTE);
	s->comm = sc_graph_add_lane(&s->graph, 0, SC_LANE_COMM);
	s->host = sc_graph_add_lane(&s->graph, 0, SC_LANE_HOST);
	s->first_kernel = s->last_kernel = s->first_comm = s->last_comm = SC_NONE;
	s->own_us[0] = s->own_us[1] = 0;
	/* Its policy says what a collective waits for; once that is there, it goes first. */
	s->graph.lanes.at[s->comm].priority = 1;
}

uint32_t sc_c3_add(struct sc_c3_study *s, uint32_t lane, const struct sc_cost *cost, uint32_t after)
{
	uint32_t id = sc_graph_add_cost(&s->graph, cost);
	uint32_t node = sc_graph_add_node(&s->graph, SC_NODE_KERNEL, lane,
					  (struct sc_node_use){id, SC_NONE});
	uint32_t *first = lane == s->compute ? &s->first_kernel : &s->first_comm;

	sc_graph_add_dep(&s->graph, node, after);
	if (lane == s->host)
		return node;
	s->own_us[lane == s->comm] += sc_cost_alone_us(cost);
	if (*first == SC_NONE)
		*first = node;
	*(lane == s->compute ? &s->last_kernel : &s->last_comm) = node;
	return node;
}

int sc_c3_run(struct sc_c3_study *s)
{
	struct sc_c3_result *out = &s->result;
	const double *start, *end;
	int rc;

	sc_graph_seal(&s->graph);
	out->limits.n = 0;
	sc_simulator_observe(s->sim, see_limit, &out->limits);
	rc = sc_simulate(s->sim, &s->graph, NULL, &s->timeline, s->err);
	if (rc)
		return rc;
	if (out->limits.n)
		out->limits.at[out->limits.n - 1].until_us = s->timeline.total_us;
	start = s->timeline.start_us;
	end = s->timeline.end_us;
	out->time_us = s->timeline.total_us;
	/* No more can be hidden than all but the longer side, maybe shorter under the policy. */
	out->ideal = out->serial_us /
		     fmax(fmin(out->compute_us, s->own_us[0]), fmin(out->comm_us, s->own_us[1]));
	if (s->last_kernel != SC_NONE)
		out->compute_slowdown =
			(end[s->last_kernel] - start[s->first_kernel]) / out->compute_us;
	if (s->last_comm != SC_NONE && out->comm_us > 0)
		out->comm_slowdown = (end[s->last_comm] - start[s->first_comm]) / out->comm_us;
	return 0;
}

void sc_c3_scale(struct sc_cost *cost, double factor)
{
	cost->latency_us *= factor;
	cost->work_us *= factor;
}

void sc_c3_kernel_cost(const struct sc_c3_study *s, const struct sc_op *op, double sms,
		       struct sc_cost *out)
{
	sc_interfere_kernel(s->pair->transfer.device, op, sms, 0, out);
	sc_c3_scale(out, s->scale);
}

void sc_c3_copy_cost(const struct sc_c3_study *s, double n_pieces, double n_copies,
		     struct sc_cost *out)
{
	sc_interfere_copy(&s->pair->transfer, n_pieces, n_copies, out);
	sc_c3_scale(out, s->copy_scale);
}

/* Kernels bound by memory get a few SMs less, and lose less to their caches. */
static void relieve(struct sc_c3_study *s, const struct sc_op *op, struct sc_cost *cost)
{
	const struct sc_device *device = s->pair->transfer.device;
	const struct sc_interference_coef *c = &device->interference;
	struct sc_op_time time = {.memory_us = 0};

	if (c->relief_gain > 0)
		sc_op_model_get(op->kind)->time(device, op, &time);
	if (!(time.memory_us > time.math_us))
		return;
	sc_c3_scale(cost, 1 / (1 + c->relief_gain));
	s->result.n = c->sm_granule;
}

/* Two streams run. `kept` SMs are the collective's to the end: kernels are launched on the others,
 * and the collective takes from those what it needs more. */
struct streams {
	double kept;
	bool copies, relieved, kernel_first;
};

/* Adds all kernels in order after `begins`. A kernel loses whole waves to the collective's SMs, and
 * the engine shares SMs by area: the collective's demand becomes the largest that any of them asks
 * for, and theirs what that leaves them. */
static void add_kernels(struct sc_c3_study *s, const struct streams *how, uint32_t begins,
			struct sc_cost *comm)
{
	const double all = (double)s->pair->transfer.device->sm_count;
	const double channels = comm ? comm->demand[SC_RES_SM] * all : 0;
	double left = 1;

	s->squeezed.n = 0;
	for (const struct sc_op *op = s->kernels; op < s->kernels + s->n_kernels; op++) {
		struct squeezed_kernel k = {.squeeze = 1};
		struct sc_cost fewer;

		sc_c3_kernel_cost(s, op, how->kept > 0 ? all - how->kept : 0, &k.cost);
		if (channels > how->kept) {
			sc_c3_kernel_cost(s, op, all - channels, &fewer);
			k.squeeze = fmax(1, sc_cost_alone_us(&fewer) / sc_cost_alone_us(&k.cost));
		}
		left = fmin(left, k.cost.demand[SC_RES_SM] / k.squeeze);
		SC_VEC_PUSH(&s->squeezed, k);
	}
	for (size_t i = 0; i < s->n_kernels; i++) {
		struct sc_cost *cost = &s->squeezed.at[i].cost;

		if (channels > 0)
			cost->demand[SC_RES_SM] = left * s->squeezed.at[i].squeeze;
		if (how->relieved)
			relieve(s, &s->kernels[i], cost);
		sc_c3_add(s, s->compute, cost, i ? SC_NONE : begins);
	}
	if (channels > 0)
		comm->demand[SC_RES_SM] = 1 - left;
}

static int run_streams(struct sc_c3_study *s, const struct streams *how)
{
	const struct sc_transfer *t = &s->pair->transfer;
	const struct sc_interference_coef *c = &t->device->interference;
	const double wait_us = how->kernel_first ? c->wait_frac * s->result.compute_us : 0;
	struct sc_cost comm, second = {.work_us = fmax(wait_us, s->pair->second_us)};
	uint32_t begins = SC_NONE;

	sc_c3_begin(s);
	if (how->copies)
		sc_c3_copy_cost(s, 1, t->n_ranks - 1, &comm);
	else
		sc_interfere_collective(t, 0, s->pair->comm_us, &comm);
	comm.latency_us += how->copies ? t->call_us : 0;
	sc_interfere_relieve(t->device, how->kept,
			     comm.demand[SC_RES_SM] * (double)t->device->sm_count, &comm);
	if (second.work_us > 0)
		begins = sc_c3_add(s, s->host, &second, SC_NONE);
	add_kernels(s, how, how->kernel_first ? SC_NONE : begins, &comm);
	sc_c3_add(s, s->comm, &comm, how->kernel_first ? begins : SC_NONE);
	return sc_c3_run(s);
}

static double kernels_us(const struct sc_c3_study *s, double kept)
{
	const double all = (double)s->pair->transfer.device->sm_count;
	struct sc_cost cost;
	double us = 0;

	for (size_t i = 0; i < s->n_kernels; i++) {
		sc_c3_kernel_cost(s, &s->kernels[i], kept > 0 ? all - kept : 0, &cost);
		us += sc_cost_alone_us(&cost);
	}
	return us;
}

/* Reserves n SMs, or the best from `from` to the collective's channels, in the device's granule. */
static int run_reserved(struct sc_c3_study *s, double n, double from)
{
	const struct sc_device *device = s->pair->transfer.device;
	const double granule = sc_device_whole_sms(device, 1),
		     room = sc_device_most_reserved(device);
	const double whole = sc_device_whole_sms(device, n);
	double to = whole, next_us;
	struct sc_c3_result best = s->result;
	int rc = 0;

	if (whole > room)
		return sc_err_set(
			s->err, SC_ECONFLICT,
			"reserve:%.0f leaves too few of the %.0f SMs of %.40s to kernels; "
			"keep at most %.0f",
			n, (double)device->sm_count, device->id, room);
	if (n > 0)
		from = whole;
	else
		to = fmin(sc_device_whole_sms(device, sc_transfer_sms(&s->pair->transfer)), room);
	best.time_us = INFINITY;
	next_us = kernels_us(s, from);
	for (double k = from; rc == 0 && k <= fmax(from, to); k += granule) {
		const double us = next_us;

		next_us = k + granule <= to ? kernels_us(s, k + granule) : HUGE_VAL;
		if (next_us <= us)
			continue; /* one more spares the path and costs no wave */
		rc = run_streams(s, &(struct streams){.kept = k});
		s->result.n = k;
		if (s->result.time_us < best.time_us)
			best = s->result;
	}
	s->result = best;
	return rc;
}

int sc_c3_run_serial(struct sc_c3_study *s)
{
	const struct sc_c3_pair *pair = s->pair;
	struct sc_cost comm, nothing = {0};

	sc_c3_begin(s);
	sc_interfere_collective(&pair->transfer, 0, pair->comm_us, &comm);
	if (!sc_c3_sends(pair->kind))
		sc_c3_add(s, s->compute, &nothing, sc_c3_add(s, s->comm, &comm, SC_NONE));
	s->first_kernel = SC_NONE;
	add_kernels(s, &(struct streams){.kept = 0}, SC_NONE, NULL);
	if (sc_c3_sends(pair->kind))
		sc_c3_add(s, s->comm, &comm, s->last_kernel);
	return sc_c3_run(s);
}

static int run_independent(struct sc_c3_study *s, const struct sc_c3_choice *choice)
{
	struct streams how = {.kept = 0};

	switch (choice->policy) {
	case SC_C3_PLAIN:
		how.kernel_first = true;
		return run_streams(s, &how);
	case SC_C3_COMM_FIRST:
		return run_streams(s, &how);
	case SC_C3_RESERVE:
		return run_reserved(s, choice->n, sc_device_whole_sms(s->pair->transfer.device, 1));
	case SC_C3_COMM_FIRST_RESERVE:
		return run_reserved(s, choice->n, 0);
	case SC_C3_COPY_ENGINE_RELIEF:
		how.relieved = true;
		/* fall through */
	case SC_C3_COPY_ENGINE:
		how.copies = true;
		return run_streams(s, &how);
	default:
		return sc_c3_run_serial(s);
	}
}

static int run_policy(struct sc_c3_study *s, const struct sc_c3_choice *choice)
{
	const struct sc_c3_pair *pair = s->pair;
	const bool in_pieces =
		choice->policy == SC_C3_CHUNKED || choice->policy == SC_C3_TILE_FUSED;
	const bool independent = pair->kind == SC_C3_INDEPENDENT;
	const char *why = NULL;

	/* SMs add what engines have brought where a product makes or needs what is moved. */
	if ((in_pieces || (sc_c3_copies(choice->policy) && choice->n > 0)) && independent)
		why = "it needs a GEMM that depends on the collective";
	else if ((in_pieces || sc_c3_copies(choice->policy)) &&
		 (independent || pair->transfer.n_nodes > 1))
		why = sc_interfere_copy_unfit(&pair->transfer);
	if (why)
		return sc_err_set(s->err, SC_EUNSUPPORTED, "policy %s: %s",
				  sc_enum_name(sc_c3_policy_names, (int)choice->policy), why);
	if (independent)
		return run_independent(s, choice);
	if (choice->policy == SC_C3_CHUNKED)
		return sc_c3_run_chunked(s, choice->n);
	if (choice->policy == SC_C3_TILE_FUSED)
		return sc_c3_run_fused(s);
	if (sc_c3_copies(choice->policy))
		return sc_c3_run_copied(s, choice->n);
	return sc_c3_run_serial(s); /* nothing of the two can run beside the other */
}

/* The kernels' time alone, as measured or predicted; it sets their scale. */
static double alone_us(struct sc_c3_study *s)
{
	double us;

	s->scale = 1;
	us = kernels_us(s, 0);
	s->scale = s->pair->compute_us > 0 ? s->pair->compute_us / us : 1;
	return us * s->scale;
}

/* The bands are measured speedups over predicted ones at 10 and 90 % of 146 measured pairs of 14
 * sources, each predicted by coefficients that were fitted without its source
 * (tests/accuracy/c3_fresh --left-out); for fused kernels, untuned ones among them, the upper end
 * is over the best. */
static void set_band(enum sc_c3_kind kind, enum sc_c3_policy policy, struct sc_c3_result *r)
{
	static const struct band {
		double low, high;
	} independent = {0.88, 1.1}, copied = {0.68, 1.02}, chunked = {0.82, 1.77},
	  fused = {0.66, 1.08};
	const struct band *b = kind == SC_C3_INDEPENDENT    ? &independent
			       : policy == SC_C3_CHUNKED    ? &chunked
			       : policy == SC_C3_TILE_FUSED ? &fused
							    : &copied;
	const double best_us = r->best_us > 0 ? r->best_us : r->time_us;

	/* Nothing is gained or lost where nothing runs beside anything. */
	r->low = r->high = r->speedup;
	if (policy == SC_C3_SERIAL || (kind != SC_C3_INDEPENDENT && policy < SC_C3_COPY_ENGINE))
		return;
	r->low = b->low * r->speedup;
	r->high = b->high * r->serial_us / best_us;
}

int sc_c3_predict(struct sc_c3_study *study, const struct sc_c3_pair *pair,
		  const struct sc_c3_choice *choice, struct sc_c3_result *out, struct sc_err *err)
{
	struct sc_c3_result *r = &study->result;
	const struct sc_device *device = pair->transfer.device;
	struct sc_cost comm;
	int rc;

	if (!pair->n_layer && !(device->peak_tflops[pair->gemm.dtype] > 0))
		return sc_err_set(err, SC_EUNSUPPORTED, "%s has no %s math", device->id,
				  sc_enum_name(sc_dtype_names, (int)pair->gemm.dtype));
	*r = (struct sc_c3_result){.compute_slowdown = 1, .comm_slowdown = 1};
	study->pair = pair;
	study->kernels = pair->n_layer ? pair->layer : &pair->gemm;
	study->n_kernels = pair->n_layer ? pair->n_layer : 1;
	study->err = err;
	r->compute_us = alone_us(study);
	sc_interfere_collective(&pair->transfer, 0, 0, &comm);
	r->comm_us = pair->comm_us > 0 ? pair->comm_us : sc_cost_alone_us(&comm);
	r->serial_us = r->compute_us + r->comm_us;
	study->copy_scale = fmin(1, r->comm_us / sc_cost_alone_us(&comm));
	rc = run_policy(study, choice);
	if (rc)
		return rc;
	r->speedup = r->serial_us / r->time_us;
	set_band(pair->kind, choice->policy, r);
	r->fraction = r->ideal > 1 ? (r->speedup - 1) / (r->ideal - 1) : (double)NAN;
	if (fabs(r->fraction) < ROUNDING)
		r->fraction = 0;
	*out = *r;
	return 0;
}

int sc_c3_two_kernels(struct sc_c3_study *study, const struct sc_device *device,
		      const struct sc_op op[2], struct sc_c3_kernels *out, struct sc_err *err)
{
	uint32_t node[2];
	int rc;

	*out = (struct sc_c3_kernels){.limits.n = 0};
	sc_c3_begin(study);
	study->graph.lanes.at[study->comm].priority = 0;
	for (int i = 0; i < 2; i++) {
		struct sc_cost cost;

		sc_interfere_kernel(device, &op[i], 0, 0, &cost);
		out->alone_us[i] = sc_cost_alone_us(&cost);
		node[i] = sc_c3_add(study, i ? study->comm : study->compute, &cost, SC_NONE);
	}
	sc_graph_seal(&study->graph);
	sc_simulator_observe(study->sim, see_limit, &out->limits);
	rc = sc_simulate(study->sim, &study->graph, NULL, &study->timeline, err);
	if (out->limits.n)
		out->limits.at[out->limits.n - 1].until_us = study->timeline.total_us;
	for (int i = 0; i < 2 && rc == 0; i++)
		out->end_us[i] = study->timeline.end_us[node[i]];
	return rc;
}
