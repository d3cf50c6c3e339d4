/* Events that are held back until the file ends. Records of CUDA events that a file does not have,
 * but of which its waits say the stream: profilers wrote no cuda_event before 2026; with them a
 * wait is for one stream, and for what was launched there by then. And kernels of collectives, to
 * be joined with their calls. */
#include <stdlib.h>

#include "base/search.h"
#include "trace/import/import_kineto_priv.h"

/* Records of the file stand first. */
SC_COMPARE(compare, struct kineto_record,
	   4 * SC_ORDER(a->correlation, b->correlation) +
		   2 * SC_ORDER(b->is_in_file, a->is_in_file) + SC_ORDER(a->start_ns, b->start_ns));

static void kineto_put(struct kineto_import *im, const struct kineto_record *record)
{
	static const char name[] = "cudaEventRecord";
	const struct sc_trace_lane lane = {
		.is_stream = 1, .device = record->device, .stream = record->stream};
	const struct sc_trace_event event = {
		.cls = SC_EV_EVENT_RECORD,
		.flags = SC_EVF_NO_TIME, /* its call has one */
		.start_ns = record->start_ns,
		.name = sc_trace_writer_string(im->out.writer, name, sizeof(name) - 1),
		.lane = sc_trace_writer_lane(im->out.writer, &lane),
		.correlation = record->correlation,
		.aux0 = record->event,
	};

	sc_trace_writer_add(im->out.writer, &event);
	im->stats->n_derived++;
}

/* For files whose kernels do not say it: kernel -> correlation -> launch call -> the ranges around
 * it on that thread ("nccl:all_reduce" inside record_param_comms). All of it in bounded memory:
 * calls and kernels up to a limit, launches in a ring by correlation, which counts up; what exceeds
 * it keeps what it had. */
enum { N_LAUNCHES = 1 << 17, MAX_CALLS = 1 << 17, MAX_KERNELS = 1 << 16, MAX_LOOK_BACK = 64 };

struct launch {
	uint32_t correlation, lane, config;
	int64_t start_ns;
};
struct call {
	int64_t start_ns, end_ns, external_id;
	uint32_t lane;
	struct sc_trace_comm comm;
};
struct held {
	struct sc_trace_event event;
	struct launch launch; /* correlation 0: not seen yet */
};
struct sc_comm_join {
	struct launch *launches; /* by correlation */
	uint32_t *wanted;        /* by correlation: index + 1 of a kernel without its launch */
	SC_VEC(struct call) calls;
	SC_VEC(struct held) kernels;
};

struct sc_comm_join *sc_comm_join_create(void)
{
	struct sc_comm_join *join = sc_xcalloc(1, sizeof(*join));

	join->launches = sc_xcalloc(N_LAUNCHES, sizeof(*join->launches));
	join->wanted = sc_xcalloc(MAX_KERNELS, sizeof(*join->wanted));
	return join;
}

void sc_comm_join_destroy(struct sc_comm_join *join)
{
	if (!join)
		return;
	free(join->launches);
	free(join->wanted);
	SC_VEC_RELEASE(&join->calls);
	SC_VEC_RELEASE(&join->kernels);
	free(join);
}

void kineto_join_launch(struct sc_comm_join *join, const struct sc_trace_event *event)
{
	struct launch launch = {.correlation = event->correlation,
				.lane = event->lane,
				.config = event->config,
				.start_ns = event->start_ns};
	uint32_t *wanted = &join->wanted[event->correlation % MAX_KERNELS];

	join->launches[event->correlation % N_LAUNCHES] = launch;
	if (*wanted && join->kernels.at[*wanted - 1].event.correlation == event->correlation) {
		join->kernels.at[*wanted - 1].launch = launch;
		*wanted = 0;
	}
}

bool kineto_join_kernel(struct sc_comm_join *join, const struct sc_trace_event *event)
{
	struct held held = {.event = *event};
	const struct launch *launch = &join->launches[event->correlation % N_LAUNCHES];

	if (join->kernels.n == MAX_KERNELS)
		return false;
	if (event->correlation && launch->correlation == event->correlation)
		held.launch = *launch;
	SC_VEC_PUSH(&join->kernels, held);
	if (!held.launch.correlation && event->correlation)
		join->wanted[event->correlation % MAX_KERNELS] = (uint32_t)join->kernels.n;
	return true;
}

void kineto_join_call(struct sc_comm_join *join, const struct sc_trace_event *event,
		      const struct sc_trace_comm *comm)
{
	const struct call call = {.start_ns = event->start_ns,
				  .end_ns = event->start_ns + event->dur_ns,
				  .external_id = event->external_id,
				  .lane = event->lane,
				  .comm = *comm};

	if (join->calls.n < MAX_CALLS)
		SC_VEC_PUSH(&join->calls, call);
}

uint32_t kineto_join_config(const struct sc_comm_join *join, uint32_t correlation)
{
	const struct launch *launch = &join->launches[correlation % N_LAUNCHES];

	return correlation && launch->correlation == correlation ? launch->config : 0;
}

/* By lane, then start; of two that start together, the longer one is the outer. */
SC_COMPARE(compare_calls, struct call,
	   4 * SC_ORDER(a->lane, b->lane) + 2 * SC_ORDER(a->start_ns, b->start_ns) +
		   SC_ORDER(b->end_ns, a->end_ns));

/* The calls around the launch, the innermost first. */
static bool find_call(const struct sc_comm_join *join, const struct launch *launch,
		      struct sc_trace_comm *out)
{
	size_t low;
	bool found = false;

	SC_FIRST_NOT(low, i, 0, join->calls.n,
		     join->calls.at[i].lane < launch->lane ||
			     (join->calls.at[i].lane == launch->lane &&
			      join->calls.at[i].start_ns <= launch->start_ns));
	for (size_t back = 0; low > 0 && back < MAX_LOOK_BACK; back++) {
		const struct call *call = &join->calls.at[--low];

		if (call->lane != launch->lane)
			break;
		if (call->end_ns < launch->start_ns)
			continue;
		if (!found)
			*out = call->comm;
		else
			sc_import_comm_fill(out, &call->comm); /* what the inner one does not say */
		found = true;
	}
	return found;
}

void kineto_put_held(struct kineto_import *im)
{
	const struct kineto_record *records = im->records.at;
	struct sc_comm_join *join = im->join;

	SC_SORT(im->records.at, im->records.n, compare);
	for (size_t i = 0; i < im->records.n; i++)
		if (!records[i].is_in_file &&
		    (i == 0 || records[i - 1].correlation != records[i].correlation))
			kineto_put(im, &records[i]);
	SC_SORT(join->calls.at, join->calls.n, compare_calls);
	for (size_t i = 0; i < join->kernels.n; i++) {
		struct held *held = &join->kernels.at[i];
		struct sc_trace_comm comm;

		if (held->launch.correlation && find_call(join, &held->launch, &comm)) {
			held->event.comm = sc_trace_writer_comm(im->out.writer, &comm);
			im->stats->n_joined++;
		}
		sc_trace_writer_add(im->out.writer, &held->event);
	}
}
