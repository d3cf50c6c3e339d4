/* Which collective call a kernel belongs to, for traces whose kernels do not say it: kernel ->
 * correlation -> launch call -> the ranges around it on that thread ("nccl:all_reduce" inside
 * record_param_comms). All of it in bounded memory: calls and kernels up to a limit, launches in a ring
 * by correlation, which counts up. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/search.h"
#include "base/vec.h"
#include "trace/import/import_priv.h"

enum { N_LAUNCHES = 1 << 17, MAX_CALLS = 1 << 17, MAX_KERNELS = 1 << 16, MAX_LOOK_BACK = 64 };

int64_t sc_import_elems(const char *at, size_t n)
{
	const char *end = at + n;
	int64_t product = 1;
	bool any = false;

	/* The innermost list that has a number is the first tensor's. */
	while (at < end && !isdigit((unsigned char)*at))
		at++;
	for (; at < end && *at != ']'; at++) {
		int64_t dim = 0;

		if (!isdigit((unsigned char)*at))
			continue;
		for (; at < end && isdigit((unsigned char)*at); at++) {
			if (dim > INT32_MAX)
				return -1;
			dim = dim * 10 + (*at - '0');
		}
		if (dim && product > INT64_MAX / dim)
			return -1;
		product *= dim;
		any = true;
		at--;
	}
	return any ? product : -1;
}

int sc_import_dtype_bytes(const char *at, size_t n)
{
	static const struct {
		const char *text;
		int n_bytes;
	} dtypes[] = {
		{"Float", 4},
		{"float", 4},
		{"Float32", 4},
		{"BFloat16", 2},
		{"c10::BFloat16", 2},
		{"Half", 2},
		{"c10::Half", 2},
		{"Float16", 2},
		{"Double", 8},
		{"double", 8},
		{"Long", 8},
		{"long int", 8},
		{"long", 8},
		{"Int", 4},
		{"int", 4},
		{"Short", 2},
		{"short int", 2},
		{"Byte", 1},
		{"unsigned char", 1},
		{"Char", 1},
		{"signed char", 1},
		{"Bool", 1},
		{"bool", 1},
		{"Float8_e4m3fn", 1},
		{"Float8_e5m2", 1},
		{"c10::Float8_e4m3fn", 1},
		{"c10::Float8_e5m2", 1},
	};

	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		if (strlen(dtypes[i].text) == n && memcmp(dtypes[i].text, at, n) == 0)
			return dtypes[i].n_bytes;
	}
	return 0;
}

void sc_import_comm_bytes(struct sc_trace_comm *comm, int dtype_bytes)
{
	int64_t elems = comm->in_elems > comm->out_elems ? comm->in_elems : comm->out_elems;

	if (comm->bytes < 0 && dtype_bytes > 0 && elems >= 0 && elems <= INT64_MAX / dtype_bytes)
		comm->bytes = elems * dtype_bytes;
}

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

void sc_comm_join_call(struct sc_comm_join *join, const struct sc_trace_event *event,
		       const struct sc_trace_comm *comm)
{
	struct call call = {.start_ns = event->start_ns,
			    .end_ns = event->start_ns + event->dur_ns,
			    .external_id = event->external_id,
			    .lane = event->lane,
			    .comm = *comm};

	if (join->calls.n < MAX_CALLS)
		SC_VEC_PUSH(&join->calls, call);
}

void sc_comm_join_launch(struct sc_comm_join *join, const struct sc_trace_event *event)
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

uint32_t sc_comm_join_config(const struct sc_comm_join *join, uint32_t correlation)
{
	const struct launch *launch = &join->launches[correlation % N_LAUNCHES];

	return correlation && launch->correlation == correlation ? launch->config : 0;
}

bool sc_comm_join_kernel(struct sc_comm_join *join, const struct sc_trace_event *event)
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

/* By lane, then start; of two that start together, the longer one is the outer. */
static int compare_calls(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return 0;
}

void sc_import_comm_fill(struct sc_trace_comm *to, const struct sc_trace_comm *from)
{
#define FILL(member, is_said) to->member = (is_said) ? to->member : from->member
	FILL(collective, to->collective);
	FILL(dtype, to->dtype);
	FILL(group_name, to->group_name);
	FILL(group_ranks, to->group_ranks);
	FILL(comm_hash, to->comm_hash);
	FILL(in_elems, to->in_elems >= 0);
	FILL(out_elems, to->out_elems >= 0);
	FILL(bytes, to->bytes >= 0);
	FILL(seq, to->seq >= 0);
	FILL(group_size, to->group_size >= 0);
	FILL(peer, to->peer >= 0);
	FILL(root, to->root >= 0);
#undef FILL
}

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

int64_t sc_comm_join_finish(struct sc_comm_join *join, struct sc_trace_writer *writer)
{
	int64_t n_found = 0;

	if (join->calls.n)
		qsort(join->calls.at, join->calls.n, sizeof(*join->calls.at), compare_calls);
	for (size_t i = 0; i < join->kernels.n; i++) {
		struct held *held = &join->kernels.at[i];
		struct sc_trace_comm comm;

		if (held->launch.correlation && find_call(join, &held->launch, &comm)) {
			held->event.comm = sc_trace_writer_comm(writer, &comm);
			n_found++;
		}
		sc_trace_writer_add(writer, &held->event);
	}
	return n_found;
}
