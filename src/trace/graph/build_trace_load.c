/* A run: its ranks loaded one after the other and kept compact, then brought to one clock. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"
#include "base/units.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/kernel_family.h"

enum { ARENA_BYTES = 64 << 10, MAX_SHAPES = 512, MAX_CLOCK_ERROR_NS = 20 * 1000 };

uint32_t sc_trace_load_name(struct rank_load *load, uint32_t string)
{
	struct sc_trace_run *run = load->run;
	char *demangled;
	uint32_t name;

	if (load->names[string])
		return load->names[string] - 1;
	demangled = sc_demangle(load->trace.strings.at[string]);
	name = sc_intern_add(&run->names, demangled ? demangled : load->trace.strings.at[string]);
	free(demangled);
	while (run->family.n <= name) {
		const char *text = sc_intern_get(&run->names, (uint32_t)run->family.n);

		SC_VEC_PUSH(&run->family, (uint8_t)sc_kernel_family_of(text));
		SC_VEC_PUSH(&run->owner,
			    (uint8_t)sc_kernel_family_owner(
				    (enum sc_kernel_family)run->family.at[run->family.n - 1]));
	}
	load->names[string] = name + 1;
	return name;
}

static void end_load(struct rank_load *load)
{
	free(load->names);
	free(load->call_of_event);
	free(load->call_before);
	free(load->lane_of);
	free(load->act_event);
	free(load->comm_before);
	SC_VEC_RELEASE(&load->marks.list);
	SC_VEC_RELEASE(&load->launches);
	SC_VEC_RELEASE(&load->call_of.list);
	sc_trace_release(&load->trace);
}

/* Activities of devices, and how many of them have no start. */
static int64_t count_acts(const struct sc_trace *trace, int64_t *n_untimed)
{
	int64_t n = 0;

	*n_untimed = 0;
	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *e = &trace->events.at[i];

		n += sc_event_on_device(e);
		*n_untimed += sc_event_on_device(e) && e->flags & SC_EVF_NO_TIME;
	}
	return n;
}

/* Profilers list all devices of the host, which are taken to be alike. In a container of one GPU
 * that is one, which says nothing of the node. */
static void load_node(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	int32_t n = 0;

	load->rank->host = sc_arena_strdup(&load->run->arena, t->identity.host);
	load->rank->gpu = "";
	for (size_t i = 0; i < t->meta.n; i++) {
		const char *key = t->meta.at[i].key;
		const char *dot = strncmp(key, "device.", 7) == 0 ? strchr(key + 7, '.') : NULL;

		if (!dot || strcmp(dot, ".name") != 0)
			continue;
		if (n++ == 0)
			load->rank->gpu = sc_arena_strdup(&load->run->arena, t->meta.at[i].value);
	}
	if (n > 1 && n > load->run->node_gpus)
		load->run->node_gpus = n;
}

/* Its name and step. */
static void place_broken(struct rank_load *load, struct sc_broken *b)
{
	const struct sc_trace_rank *r = load->rank;
	size_t i = 0;

	b->name = sc_trace_load_name(load, b->name);
	while (i < r->iterations.n && (r->calls.at[r->iterations.at[i].begin].start_ns > b->at_ns ||
				       r->calls.at[r->iterations.at[i].end].start_ns < b->at_ns))
		i++;
	b->step = i < r->iterations.n ? r->iterations.at[i].step : -1;
}

/* Processes beside a rank's own, as loaders of data, leave traces too: `active` leaves them out. */
static int load_rank(struct sc_trace_run *run, const char *path, const char *range, bool active,
		     struct sc_err *err)
{
	const struct sc_trace_load_opts opts = {
		.classes = 1u << SC_EV_KERNEL | 1u << SC_EV_COPY | 1u << SC_EV_SET |
			   1u << SC_EV_API | 1u << SC_EV_SYNC | 1u << SC_EV_EVENT_RECORD |
			   1u << SC_EV_RANGE | 1u << SC_EV_GRAPH |
			   (uint32_t)run->with_shapes << SC_EV_OP,
	};
	struct sc_trace_rank rank = {
		.path = sc_arena_strdup(&run->arena, path), .dp_rank = -1, .stage = -1};
	struct rank_load load = {.run = run};
	int rc = sc_trace_load(path, &opts, &load.trace, err);

	if (rc)
		return rc;
	if (active)
		sc_trace_mend(&load.trace, &rank.mended);
	if (count_acts(&load.trace, &rank.n_untimed) == 0 && active) {
		sc_trace_release(&load.trace);
		run->n_idle++;
		return 0;
	}
	load.names = sc_xcalloc(load.trace.strings.n + 1, sizeof(*load.names));
	load.call_of_event = sc_xmalloc((load.trace.events.n + 1) * sizeof(*load.call_of_event));
	load.lane_of = sc_xmalloc((load.trace.lanes.n + 1) * sizeof(*load.lane_of));
	memset(load.lane_of, 0xff, (load.trace.lanes.n + 1) * sizeof(*load.lane_of));
	rank.rank =
		load.trace.identity.rank >= 0 ? load.trace.identity.rank : (int32_t)run->ranks.n;
	if (load.trace.identity.world > run->world)
		run->world = load.trace.identity.world;
	if (run->ranks.n == 0)
		run->base_ns = load.trace.identity.base_utc_ns;
	run->n_events += (int64_t)load.trace.events.n;
	SC_VEC_PUSH(&run->ranks, rank);
	load.rank = &run->ranks.at[run->ranks.n - 1];
	load.merged = sc_merge_add_rank(&run->merge, rank.rank, load.trace.identity.host_hash);
	load_node(&load);
	load.call_of = sc_correlations_of(&load.trace, SC_EV_API);
	sc_trace_find_marks(&load, range);
	if (run->ranks.n == 1 || load.marks.found_by > run->found_by) {
		run->found_by = load.marks.found_by;
		sc_marks_text(run->found_by, load.trace.strings.at[load.marks.name],
			      run->marked_by);
	}
	sc_trace_load_calls(&load);
	sc_trace_load_acts(&load);
	sc_trace_load_queues(&load);
	sc_trace_load_loops(&load);
	sc_trace_load_waits(&load);
	sc_trace_number_iterations(&load);
	for (size_t i = 0; i < SC_N_BROKEN; i++)
		place_broken(&load, &load.rank->mended.broken[i]);
	if (run->ranges.n)
		rc = sc_trace_load_ranges(&load, path, err);
	/* From the trace's base to the run's. Calls of the merge are on it already. */
	for (size_t i = 0; i < load.rank->acts.n; i++)
		load.rank->acts.at[i].start_ns += load.trace.identity.base_utc_ns - run->base_ns;
	for (size_t i = 0; i < load.rank->calls.n; i++)
		load.rank->calls.at[i].start_ns += load.trace.identity.base_utc_ns - run->base_ns;
	end_load(&load);
	return rc;
}

static int check_activity(const struct sc_trace_run *run, const char *first_file,
			  struct sc_err *err)
{
	const char *idle = run->ranks.n ? NULL : first_file;

	for (size_t r = 0; r < run->ranks.n && !idle; r++) {
		const struct sc_trace_rank *rank = &run->ranks.at[r];

		if (rank->acts.n == 0 && rank->n_untimed)
			return sc_err_at(
				err, SC_EUNSUPPORTED, rank->path, 0, 0,
				"the trace does not say when its %lld activities of the GPU ran, so "
				"that there is nothing to replay",
				(long long)rank->n_untimed);
		idle = rank->acts.n ? NULL : rank->path;
	}
	if (!idle)
		return 0;
	return sc_err_at(err, SC_EUNSUPPORTED, idle, 0, 0,
			 "the trace has no activity of a GPU; there is nothing to replay");
}

/* ---- one clock, one count of iterations ---- */

static void correct_times(struct sc_trace_run *run)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct sc_trace_rank *rank = &run->ranks.at[r];
		const struct sc_merge_rank *merged = &run->merge.ranks.at[r];

		for (size_t i = 0; i < rank->acts.n && merged->pieces.n; i++)
			rank->acts.at[i].start_ns +=
				sc_merge_correction(merged, rank->acts.at[i].start_ns);
		for (size_t i = 0; i < rank->calls.n && merged->pieces.n; i++)
			rank->calls.at[i].start_ns +=
				sc_merge_correction(merged, rank->calls.at[i].start_ns);
	}
}

/* First and last time of a rank's device. */
static void span_of(const struct sc_trace_rank *rank, int64_t span[2])
{
	span[0] = INT64_MAX;
	span[1] = INT64_MIN;
	for (size_t i = 0; i < rank->acts.n; i++) {
		const struct sc_act *act = &rank->acts.at[i];

		span[0] = act->start_ns < span[0] ? act->start_ns : span[0];
		span[1] = sc_act_end(act) > span[1] ? sc_act_end(act) : span[1];
	}
}

/* The same rank, with the same times. */
static bool is_same_recording(const struct sc_trace_rank *a, const struct sc_trace_rank *b)
{
	bool same = a->rank == b->rank && a->acts.n == b->acts.n;

	for (size_t i = 0; same && i < a->acts.n; i++)
		same = a->acts.at[i].start_ns == b->acts.at[i].start_ns &&
		       a->acts.at[i].dur_ns == b->acts.at[i].dur_ns;
	return same;
}

/* Ranks of one run share collectives, or ran at the same time. */
static int check_related(const struct sc_trace_run *run, struct sc_err *err)
{
	for (size_t r = 1; r < run->ranks.n; r++) {
		const struct sc_trace_rank *rank = &run->ranks.at[r];
		bool related = run->merge.ranks.at[r].basis != SC_MERGE_HOST_CLOCK;
		int64_t own[2], other[2];

		for (size_t o = 0; o < r; o++)
			if (is_same_recording(&run->ranks.at[o], rank))
				return sc_err_at(
					err, SC_ECONFLICT, rank->path, 0, 0,
					"the same recording of rank %d is in %s, too: remove "
					"one of them",
					(int)rank->rank, run->ranks.at[o].path);

		span_of(rank, own);
		for (size_t o = 0; o < r && !related; o++) {
			span_of(&run->ranks.at[o], other);
			related = own[0] < other[1] && other[0] < own[1];
		}
		if (!related)
			return sc_err_at(
				err, SC_ECONFLICT, rank->path, 0, 0,
				"shares no collective and no time with the ranks before it: not of "
				"one run; import and replay each run by itself");
	}
	return 0;
}

static void find_transfers(struct sc_trace_run *run)
{
	const size_t n = run->merge.n_members.n;

	SC_VEC_RESERVE(&run->transfer_us, n + 1);
	run->transfer_us.n = n;
	for (size_t i = 0; i < n; i++)
		run->transfer_us.at[i] = NAN;
	for (size_t r = 0; r < run->merge.ranks.n; r++)
		for (size_t i = 0; i < run->merge.ranks.at[r].calls.n; i++) {
			const struct sc_merge_call *c = &run->merge.ranks.at[r].calls.at[i];
			const double us = sc_ns_us(c->end_ns - c->start_ns);

			if (c->instance >= 0 && run->merge.n_members.at[c->instance] > 1)
				run->transfer_us.at[c->instance] =
					fmin(run->transfer_us.at[c->instance], us);
		}
}

struct trace_meeting *sc_trace_meetings(const struct sc_trace_run *run)
{
	const size_t n = run->merge.n_members.n;
	struct trace_meeting *meeting = sc_xmalloc((n + 1) * sizeof(*meeting));

	for (size_t i = 0; i < n; i++) {
		meeting[i].last_start_ns = INT64_MIN;
		meeting[i].first_end_ns = INT64_MAX;
	}
	for (size_t r = 0; r < run->merge.ranks.n; r++) {
		const struct sc_merge_rank *rank = &run->merge.ranks.at[r];

		for (size_t c = 0; c < rank->calls.n; c++) {
			const struct sc_merge_call *call = &rank->calls.at[c];
			const int64_t add = sc_merge_correction(rank, call->start_ns);

			if (call->instance < 0 || !call->barrier)
				continue;
			if (call->start_ns + add > meeting[call->instance].last_start_ns)
				meeting[call->instance].last_start_ns = call->start_ns + add;
			if (call->end_ns + add < meeting[call->instance].first_end_ns)
				meeting[call->instance].first_end_ns = call->end_ns + add;
		}
	}
	return meeting;
}

/* Members of one collective are there at the same time. Where they are not, the match is wrong, as
 * in recordings with holes: such collectives are no groups. */
static void drop_contradictions(struct sc_trace_run *run)
{
	struct trace_meeting *meeting = sc_trace_meetings(run);

	for (size_t i = 0; i < run->merge.n_members.n; i++)
		if (meeting[i].last_start_ns > meeting[i].first_end_ns &&
		    meeting[i].last_start_ns - meeting[i].first_end_ns > MAX_CLOCK_ERROR_NS) {
			run->transfer_us.at[i] = NAN;
			run->n_contradictions++;
		}
	free(meeting);
}

/* Each rank's shortest collective of a kind and size: a small table, searched from its end. */
struct shape {
	int64_t bytes;
	int32_t kind, group_size;
	double us;
};

static void find_bounds(struct sc_merge_rank *r)
{
	SC_VEC(struct shape) shapes = {0};

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < r->calls.n; i++) {
			struct sc_merge_call *c = &r->calls.at[i];
			const double us = sc_ns_us(c->end_ns - c->start_ns);
			struct shape new_shape = {c->bytes, c->kind, c->group_size, us};
			size_t s = 0;

			while (s < shapes.n &&
			       (shapes.at[s].bytes != c->bytes || shapes.at[s].kind != c->kind ||
				shapes.at[s].group_size != c->group_size))
				s++;
			if (pass)
				c->bound_us = s < shapes.n ? shapes.at[s].us : us;
			else if (s < shapes.n)
				shapes.at[s].us = fmin(shapes.at[s].us, us);
			else if (shapes.n < MAX_SHAPES)
				SC_VEC_PUSH(&shapes, new_shape);
		}
	SC_VEC_RELEASE(&shapes);
}

/* Profilers may begin at different steps and number them from there: a rank takes the numbers of
 * the first rank, where all collectives that they share agree by how much they differ. */
static void number_steps_as_first_rank(struct sc_trace_run *run)
{
	const size_t n_instances = run->merge.n_members.n;
	int64_t *step_of = sc_xmalloc((n_instances + 1) * sizeof(*step_of));

	for (size_t i = 0; i < n_instances; i++)
		step_of[i] = 0;
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct sc_trace_rank *rank = &run->ranks.at[r];
		bool agree = true, any = false;
		int64_t off = 0;

		for (size_t c = 0; c < rank->collectives.n; c++) {
			const struct sc_merge_call *call = &rank->collectives.at[c];

			if (call->instance < 0 || call->step == 0)
				continue;
			if (r == 0) {
				step_of[call->instance] = call->step;
			} else if (step_of[call->instance]) {
				agree = agree &&
					(!any || step_of[call->instance] - call->step == off);
				off = step_of[call->instance] - call->step;
				any = true;
			}
		}
		for (size_t i = 0; agree && i < rank->iterations.n; i++)
			rank->iterations.at[i].step += off;
	}
	free(step_of);
}

/* Only the iterations that all ranks have, in the same order. */
static void common_iterations(struct sc_trace_run *run)
{
	const struct sc_trace_rank *first = &run->ranks.at[0];
	int64_t *steps = sc_xmalloc((first->iterations.n + 1) * sizeof(*steps));
	size_t n = 0;

	for (size_t i = 0; i < first->iterations.n; i++) {
		bool all = true;

		for (size_t r = 1; r < run->ranks.n && all; r++) {
			const struct sc_trace_rank *rank = &run->ranks.at[r];

			all = false;
			for (size_t k = 0; k < rank->iterations.n; k++)
				all = all ||
				      rank->iterations.at[k].step == first->iterations.at[i].step;
		}
		if (all)
			steps[n++] = first->iterations.at[i].step;
	}
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct sc_trace_rank *rank = &run->ranks.at[r];

		for (size_t k = 0; k < n; k++)
			for (size_t i = k; i < rank->iterations.n; i++)
				if (rank->iterations.at[i].step == steps[k]) {
					rank->iterations.at[k] = rank->iterations.at[i];
					break;
				}
		rank->iterations.n = n;
	}
	run->n_iterations = n;
	free(steps);
}

/* The GPUs of a node, and whether the run was on several. The number of ranks says nothing of it.
 */
static void find_nodes(struct sc_trace_run *run)
{
	const int32_t listed = run->node_gpus;
	int32_t most = 0;

	for (size_t a = 0; a < run->ranks.n; a++) {
		const char *host = run->ranks.at[a].host;
		int32_t n = 0;

		for (size_t b = 0; b < run->ranks.n && *host; b++) {
			const char *other = run->ranks.at[b].host;

			n += strcmp(host, other) == 0;
			run->spans_nodes = run->spans_nodes || (*other && strcmp(host, other) != 0);
		}
		most = n > most ? n : most;
	}
	run->spans_nodes = run->spans_nodes || (listed > 0 && run->world > listed);
	if (listed == 0 && most > 0 && most == run->world)
		run->node_gpus = most;
}

static void release_rank(struct sc_trace_rank *rank)
{
	SC_VEC_RELEASE(&rank->acts);
	SC_VEC_RELEASE(&rank->calls);
	SC_VEC_RELEASE(&rank->waits);
	SC_VEC_RELEASE(&rank->pieces);
	SC_VEC_RELEASE(&rank->iterations);
	SC_VEC_RELEASE(&rank->streams);
	SC_VEC_RELEASE(&rank->configs);
	SC_VEC_RELEASE(&rank->shapes);
}

int sc_trace_run_clocks(const char *const *files, size_t n_files, struct sc_trace_run *out,
			struct sc_err *err)
{
	int rc = 0;

	*out = (struct sc_trace_run){.world = -1};
	sc_arena_init(&out->arena, ARENA_BYTES);
	for (size_t i = 0; rc == 0 && i < n_files; i++) {
		rc = load_rank(out, files[i], NULL, false, err);
		if (rc == 0)
			release_rank(&out->ranks.at[i]);
	}
	if (rc) {
		sc_trace_run_release(out);
		return rc;
	}
	sc_merge_match(&out->merge);
	sc_merge_clocks(&out->merge);
	return 0;
}

int sc_trace_run_load(const struct sc_trace_files *files, const struct sc_trace_run_opts *opts,
		      struct sc_trace_run *out, struct sc_err *err)
{
	const char *range = opts ? opts->range : NULL;
	int rc = 0;

	*out = (struct sc_trace_run){.world = -1, .with_shapes = opts && opts->shapes};
	sc_arena_init(&out->arena, ARENA_BYTES);
	if (opts && opts->ranges)
		SC_VEC_PUSH(&out->ranges, ((struct sc_host_range){.label = SC_NONE}));
	for (size_t i = 0; rc == 0 && i < files->n; i++)
		rc = load_rank(out, files->at[i], range, true, err);
	if (rc == 0)
		rc = check_activity(out, files->at[0], err);
	if (rc == 0) {
		sc_merge_match(&out->merge);
		sc_merge_clocks(&out->merge);
		correct_times(out);
		rc = check_related(out, err);
	}
	if (rc == 0) {
		sc_trace_show_collectives(out);
		find_transfers(out);
		drop_contradictions(out);
		for (size_t r = 0; r < out->ranks.n; r++)
			find_bounds(&out->merge.ranks.at[r]);
		number_steps_as_first_rank(out);
		common_iterations(out);
		find_nodes(out);
		size_t cut = 0;

		while (cut + 1 < out->ranks.n && !out->ranks.at[cut].n_cut)
			cut++;
		if (out->n_iterations == 0 && out->ranks.at[cut].n_cut)
			rc = sc_err_at(
				err, SC_EVALUE, out->ranks.at[cut].path, 0, 0,
				"its %zu steps lost calls or kernels (%lld launches without their kernel)%s",
				out->ranks.at[cut].n_cut, (long long)out->ranks.at[cut].n_lost,
				out->ranks.at[cut].n_doubled
					? ", and activities are in it twice: it has two copies of one recording"
				: out->ranks.at[cut].is_cut
					? ": the file was cut; import a whole one"
				: out->ranks.at[cut].lost_nccl
					? ": the file is whole, but the profiler recorded none of NCCL's kernels; "
					  "record again with a profiler that does"
					: ": the file is whole, but the profiler did not record them; record again, with "
					  "fewer steps or larger buffers");
		else if (out->n_iterations == 0)
			rc = sc_err_set(err, SC_EVALUE,
					range ? "no iteration \"%.64s\" that all ranks have"
					      : "no iteration that all ranks have%.1s",
					range ? range : "");
	}
	if (rc)
		sc_trace_run_release(out);
	return rc;
}

void sc_trace_run_release(struct sc_trace_run *run)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		release_rank(&run->ranks.at[r]);
	SC_VEC_RELEASE(&run->ranks);
	SC_VEC_RELEASE(&run->ranges);
	sc_intern_release(&run->range_keys);
	SC_VEC_RELEASE(&run->family);
	SC_VEC_RELEASE(&run->owner);
	SC_VEC_RELEASE(&run->transfer_us);
	sc_merge_release(&run->merge);
	sc_intern_release(&run->names);
	sc_arena_release(&run->arena);
}
