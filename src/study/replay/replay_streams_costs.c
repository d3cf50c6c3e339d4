/* The costs of an iteration's graph in a variant, in place: gaps and durations as measured or typical, then
 * the changes that were asked for. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "predict/recorded/kernel_family.h"
#include "study/replay/replay_streams_priv.h"

struct setting {
	const struct stream_study *study;
	const struct stream_variant *variant;
	size_t iteration, rank_idx;
	const struct sc_trace_rank *rank;
};

static double choose(enum stream_times times, double measured, double typical, double others,
		     double mean)
{
	switch (times) {
	case STREAM_MEASURED:
		return measured;
	case STREAM_TYPICAL:
		return typical;
	case STREAM_OTHERS:
		return others;
	case STREAM_MEAN:
		return mean;
	case STREAM_ZERO:
		break;
	}
	return 0;
}

/* ---- collectives by model ---- */

int sc_streams_ranks_of(const struct stream_study *study, const struct sc_trace_collective *c,
			int32_t instance)
{
	if (c->group_size > 0)
		return c->group_size;
	if (study->run.world > 0)
		return study->run.world;
	return instance >= 0 ? (int)study->run.merge.instances.at[instance].n_members : 1;
}

double sc_streams_model_us(const struct stream_study *study, const struct sc_trace_collective *c,
			   int n_ranks)
{
	const struct sc_fabric *f = &study->fabric;
	const int per_node = f->gpus_per_node > 0 ? f->gpus_per_node : 1;
	const struct sc_span span = {
		.n_ranks = n_ranks,
		.n_nodes = (n_ranks + per_node - 1) / per_node,
		.max_ranks_per_node = n_ranks < per_node ? n_ranks : per_node,
	};
	struct sc_collective_shape shape = {.bytes = (double)c->bytes};
	struct sc_cost cost = {.work_us = 0};

	if (!study->has_fabric || c->kind < 0 || c->bytes < 0)
		return NAN;
	shape.kind = (enum sc_collective)c->kind;
	sc_collective_cost(f, &shape, &span, &cost, NULL);
	return cost.latency_us + cost.work_us;
}

/* Bytes that a rank sends in a ring, as a part of the message: what the time of large ones follows. One
 * rank sends nothing. */
static double ring_share(int kind, double n)
{
	if (n <= 1)
		return 0;
	if (kind == SC_SEND_RECV || kind == SC_BROADCAST)
		return 1;
	return kind == SC_ALL_REDUCE ? 2 * (n - 1) / n : (n - 1) / n;
}

/* How much longer the transfer is with another number of GPUs: only of groups of all ranks, since those are
 * the ones that grow. */
static double resize_factor(const struct stream_study *study, const struct sc_trace_collective *c,
			    int n_ranks)
{
	const int64_t gpus = study->opts->gpus;
	const int world = study->run.world > 0 ? (int)study->run.world : n_ranks;
	double now, then;

	if (gpus == 0 || n_ranks != world)
		return 1;
	now = sc_streams_model_us(study, c, n_ranks);
	then = sc_streams_model_us(study, c, (int)gpus);
	if (now > 0 && then > 0)
		return then / now;
	now = ring_share(c->kind, n_ranks);
	return now > 0 ? ring_share(c->kind, (double)gpus) / now : 1;
}

/* ---- changes ---- */

static enum sc_replay_kind kind_of(const struct setting *s, const struct sc_act *act)
{
	if (act->kind == SC_ACT_COLLECTIVE)
		return s->rank->collectives.at[act->merge_call].kind == SC_SEND_RECV
			       ? SC_REPLAY_P2P
			       : SC_REPLAY_COLLECTIVE;
	return act->kind == SC_ACT_KERNEL ? SC_REPLAY_KERNEL : SC_REPLAY_COPY;
}

static struct sc_replay_subject subject_of(const struct setting *s, enum sc_replay_kind kind,
					   const char *name, const char *family)
{
	return (struct sc_replay_subject){
		.kind = kind,
		.name = name,
		.family = family,
		.rank = s->rank->rank,
		.dp_rank = -1,
		.stage = -1,
		.step = s->rank->iterations.at[s->iteration].step,
	};
}

static struct sc_replay_subject act_subject(const struct setting *s, const struct sc_act *act)
{
	const enum sc_kernel_family family =
		(enum sc_kernel_family)s->study->run.family.at[act->name];

	return subject_of(s, kind_of(s, act), sc_trace_run_name(&s->study->run, act->name),
			  sc_kernel_family_name(family));
}

static double scale_of(const struct setting *s, const struct sc_replay_subject *subject)
{
	const struct sc_replay_opts *opts = s->study->opts;
	double factor = 1;

	for (size_t i = 0; s->variant->changed && i < opts->n_changes; i++)
		if (opts->changes[i].action == SC_REPLAY_SCALE &&
		    sc_selector_match(&opts->changes[i].selector, subject))
			factor *= opts->changes[i].factor;
	return factor;
}

static bool is_split(const struct stream_study *study, int32_t instance)
{
	return instance >= 0 && !isnan(study->run.transfer_us.at[instance]);
}

/* In the time of a collective that one recorded rank has. */
static double waiting_us(const struct stream_study *study, size_t rank, const struct sc_act *act,
			 double us)
{
	const int32_t instance = study->run.merge.ranks.at[rank].calls.at[act->merge_call].instance;
	const double bound_us = study->run.ranks.at[rank].collectives.at[act->merge_call].bound_us;

	return is_split(study, instance) ? 0 : us - fmin(us, bound_us);
}

/* Without sizes the shortest may be of a smaller one: then nothing is known of waiting. */
double sc_streams_waiting_us(const struct stream_study *study, size_t rank,
			     const struct sc_act *act, double us)
{
	const struct sc_trace_collective *c =
		&study->run.ranks.at[rank].collectives.at[act->merge_call];
	const int32_t instance = study->run.merge.ranks.at[rank].calls.at[act->merge_call].instance;
	const bool known = c->group_size > 0 || study->run.world > 0;
	const int n_ranks = sc_streams_ranks_of(study, c, instance);
	const int n_recorded =
		instance < 0 ? 1 : (int)study->run.merge.instances.at[instance].n_members;

	if (c->bytes < 0 || n_recorded >= (known ? n_ranks : 2))
		return 0;
	return us - fmin(us, c->bound_us);
}

double sc_streams_rank_waiting_us(const struct stream_study *study, size_t rank, int64_t *n_unknown)
{
	const struct sc_trace_rank *rec = &study->run.ranks.at[rank];
	double us = 0;

	for (size_t i = 0; i < study->run.n_iterations; i++)
		for (uint32_t a = rec->iterations.at[i].first_act;
		     a < rec->iterations.at[i].end_act; a++) {
			const struct sc_act *act = &rec->acts.at[a];

			if (act->kind != SC_ACT_COLLECTIVE || act->launch == SC_NONE ||
			    act->launch < rec->iterations.at[i].begin ||
			    act->launch > rec->iterations.at[i].end)
				continue;
			us += sc_streams_waiting_us(study, rank, act,
						    sc_trace_act_work_us(&study->run, rec, act));
			*n_unknown += rec->collectives.at[act->merge_call].bytes < 0;
		}
	return us;
}

/* The transfer within `us`: of a collective that only one recorded rank has, the rest is waiting, which no
 * change of the network makes shorter. */
static double change_transfer(const struct setting *s, const struct sc_act *act, double us)
{
	const struct sc_replay_opts *opts = s->study->opts;
	const struct sc_trace_collective *c = &s->rank->collectives.at[act->merge_call];
	const int32_t instance =
		s->study->run.merge.ranks.at[s->rank_idx].calls.at[act->merge_call].instance;
	const int n_ranks = sc_streams_ranks_of(s->study, c, instance);
	const struct sc_replay_subject subject = act_subject(s, act);
	double waiting = waiting_us(s->study, s->rank_idx, act, us);
	double transfer = us - waiting;

	if (opts->missing == SC_MISSING_SYMMETRIC) {
		waiting = 0;
		transfer = us - sc_streams_waiting_us(s->study, s->rank_idx, act, us);
	}

	for (size_t i = 0; i < opts->n_changes; i++) {
		if (!sc_selector_match(&opts->changes[i].selector, &subject))
			continue;
		if (opts->changes[i].action == SC_REPLAY_MEAN)
			transfer = fmin(s->study->mean_us[act->name], c->bound_us);
		if (opts->changes[i].action == SC_REPLAY_MODEL) {
			const double model = sc_streams_model_us(s->study, c, n_ranks);

			transfer = isnan(model) ? transfer : model;
		}
	}
	return waiting + transfer * scale_of(s, &subject) * resize_factor(s->study, c, n_ranks);
}

static double change_work(const struct setting *s, const struct sc_act *act, double us)
{
	const struct sc_replay_opts *opts = s->study->opts;
	const struct sc_replay_subject subject = act_subject(s, act);

	if (s->variant->without == s->rank_idx && act->kind == SC_ACT_KERNEL &&
	    s->study->slowness[s->rank_idx] > 1)
		us /= s->study->slowness[s->rank_idx];
	if (!s->variant->changed)
		return us;
	if (act->kind == SC_ACT_COLLECTIVE)
		return change_transfer(s, act, us);
	if (opts->without_rank == s->rank->rank && act->kind == SC_ACT_KERNEL &&
	    s->study->slowness[s->rank_idx] > 1)
		us /= s->study->slowness[s->rank_idx];
	for (size_t i = 0; i < opts->n_changes; i++)
		if (opts->changes[i].action == SC_REPLAY_MEAN &&
		    sc_selector_match(&opts->changes[i].selector, &subject))
			us = s->study->mean_us[act->name];
	return us * scale_of(s, &subject);
}

/* ---- nodes ---- */

static void set_call(const struct setting *s, uint32_t c, bool tail, struct sc_cost *cost)
{
	const struct stream_medians *m = &s->study->medians[s->rank_idx];
	const struct stream_pair measured = {s->rank->calls.at[c].gap_us,
					     s->rank->calls.at[c].tail_us};
	const struct sc_replay_subject subject =
		subject_of(s, SC_REPLAY_HOST,
			   sc_trace_run_name(&s->study->run, s->rank->calls.at[c].name), NULL);
	const enum stream_times times = s->variant->gaps;

	if (tail)
		cost->latency_us =
			choose(times, (double)measured.work_us, (double)m->typical_calls[c].work_us,
			       (double)m->other_calls[c].work_us, (double)measured.work_us);
	else
		cost->latency_us =
			choose(times, (double)measured.gap_us, (double)m->typical_calls[c].gap_us,
			       (double)m->other_calls[c].gap_us, (double)measured.gap_us);
	cost->latency_us *= scale_of(s, &subject);
}

static double gap_now(const struct setting *s, uint32_t a, double measured)
{
	const struct stream_medians *m = &s->study->medians[s->rank_idx];
	const struct sc_replay_subject subject = subject_of(s, SC_REPLAY_HOST, "launch", NULL);

	return choose(s->variant->gaps, measured, (double)m->typical_acts[a].gap_us,
		      (double)m->other_acts[a].gap_us, measured) *
	       scale_of(s, &subject);
}

static double work_now(const struct setting *s, uint32_t a)
{
	const struct stream_medians *m = &s->study->medians[s->rank_idx];
	const struct sc_act *act = &s->rank->acts.at[a];
	const double us =
		choose(s->variant->work, sc_trace_act_work_us(&s->study->run, s->rank, act),
		       (double)m->typical_acts[a].work_us, (double)m->other_acts[a].work_us,
		       s->study->mean_us[act->name]);

	return change_work(s, act, us);
}

static void set_node(struct setting *s, uint32_t node, struct sc_trace_graph *g)
{
	const struct sc_trace_node *ref = &g->refs.at[node];
	struct sc_cost *cost = &g->graph.costs.at[g->graph.nodes.at[node].cost];
	uint32_t group = g->graph.nodes.at[node].group;

	s->rank_idx = g->graph.lanes.at[g->graph.nodes.at[node].lane].class_id;
	s->rank = &s->study->run.ranks.at[s->rank_idx];
	switch (ref->kind) {
	case SC_TRACE_NODE_CALL:
		set_call(s, ref->index, false, cost);
		break;
	case SC_TRACE_NODE_SYNC:
		set_call(s, ref->index, true, cost);
		break;
	case SC_TRACE_NODE_ACT:
		if (s->rank->acts.at[ref->index].launch != SC_NONE)
			cost->latency_us =
				gap_now(s, ref->index, (double)s->rank->acts.at[ref->index].gap_us);
		if (group == SC_NONE)
			cost->work_us = work_now(s, ref->index);
		else /* the shortest that a member says */
			g->graph.costs.at[g->graph.groups.at[group].cost].work_us =
				fmin(g->graph.costs.at[g->graph.groups.at[group].cost].work_us,
				     work_now(s, ref->index));
		break;
	default: /* the begin, and what is left of the iteration before: as they were */
		break;
	}
}

void sc_streams_set(const struct stream_study *study, size_t iteration,
		    const struct stream_variant *variant, struct sc_trace_graph *graph)
{
	struct setting s = {.study = study, .variant = variant, .iteration = iteration};

	for (size_t i = 0; i < graph->graph.groups.n; i++)
		graph->graph.costs.at[graph->graph.groups.at[i].cost].work_us = INFINITY;
	for (uint32_t i = 0; i < graph->graph.nodes.n; i++)
		set_node(&s, i, graph);
}

/* ---- before anything is simulated ---- */

static bool matches_any(const struct stream_study *study, const struct sc_selector *selector)
{
	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t i = 0; i < study->run.n_iterations; i++) {
			const struct setting s = {.study = study,
						  .iteration = i,
						  .rank_idx = r,
						  .rank = &study->run.ranks.at[r]};
			const struct sc_trace_iteration *it = &s.rank->iterations.at[i];
			struct sc_replay_subject subject =
				subject_of(&s, SC_REPLAY_HOST, "launch", NULL);

			if (sc_selector_match(selector, &subject))
				return true;
			for (uint32_t c = it->begin; c <= it->end; c++) {
				subject.name =
					sc_trace_run_name(&study->run, s.rank->calls.at[c].name);
				if (sc_selector_match(selector, &subject))
					return true;
			}
			for (uint32_t a = it->first_act; a < it->end_act; a++) {
				subject = act_subject(&s, &s.rank->acts.at[a]);
				if (sc_selector_match(selector, &subject))
					return true;
			}
		}
	return false;
}

/* Of the recording: the largest group, or what it says of itself. */
static int recorded_gpus(const struct stream_study *study)
{
	int n = 1;

	if (study->run.world > 0)
		return study->run.world;
	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t c = 0; c < study->run.ranks.at[r].collectives.n; c++) {
			const int of = sc_streams_ranks_of(
				study, &study->run.ranks.at[r].collectives.at[c],
				study->run.merge.ranks.at[r].calls.at[c].instance);

			n = of > n ? of : n;
		}
	return n;
}

static bool has_collectives(const struct stream_study *study)
{
	for (size_t r = 0; r < study->run.ranks.n; r++)
		if (study->run.ranks.at[r].collectives.n)
			return true;
	return false;
}

/* More GPUs than a node has are reached by a network that a recording on one node did not measure. */
static int check_gpus(const struct stream_study *study, struct sc_err *err)
{
	const int64_t gpus = study->opts->gpus;
	const int recorded = recorded_gpus(study), node = study->run.node_gpus;

	if (gpus <= recorded || gpus <= node || study->has_fabric || study->run.spans_nodes ||
	    !has_collectives(study))
		return 0;
	if (node > 0)
		return sc_err_set(err, SC_EUSAGE,
				  "--set gpus=%lld: more than the %d GPUs of a node of the trace, "
				  "and it has nothing of the network between nodes; give a config "
				  "with --cluster",
				  (long long)gpus, node);
	return sc_err_set(err, SC_EUSAGE,
			  "--set gpus=%lld: the trace does not say on how many nodes its %d GPUs "
			  "were, and so not what the network between nodes does; give a config "
			  "with --cluster",
			  (long long)gpus, recorded);
}

int sc_streams_check_changes(struct stream_study *study, struct sc_err *err)
{
	const struct sc_replay_opts *opts = study->opts;
	bool found = opts->without_rank < 0;

	for (size_t i = 0; i < opts->n_changes; i++) {
		if (opts->changes[i].action == SC_REPLAY_MODEL && !study->has_fabric)
			return sc_err_set(
				err, SC_EUSAGE,
				"--replace %.64s=model: which network? give a config with "
				"--cluster",
				opts->changes[i].selector.text);
		if (!matches_any(study, &opts->changes[i].selector))
			return sc_err_set(err, SC_EVALUE, "%.64s: no recorded operation matches",
					  opts->changes[i].selector.text);
	}
	for (size_t r = 0; r < study->run.ranks.n && study->run.ranks.n > 1; r++)
		found = found || study->run.ranks.at[r].rank == opts->without_rank;
	if (!found)
		return sc_err_set(err, SC_EVALUE, "the trace has no rank %lld among others",
				  (long long)opts->without_rank);
	return check_gpus(study, err);
}
