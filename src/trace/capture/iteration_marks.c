#include "trace/capture/iteration_marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/capture/iterations.h"

enum { MAX_KERNELS = 4 << 20, MAX_RANGES = 1 << 20 };

struct kernel {
	int64_t start_ns, end_ns;
	uint32_t name, lane;
};
struct range {
	int64_t start_ns, dur_ns;
	uint32_t name, lane;
};
struct sc_iteration_marks {
	SC_VEC(struct kernel) kernels;
	SC_VEC(struct range) ranges;
	bool too_many, has_steps;
	uint32_t host_lane;
};

struct sc_iteration_marks *sc_iteration_marks_create(void)
{
	struct sc_iteration_marks *marks = sc_xmalloc(sizeof(*marks));

	memset(marks, 0, sizeof(*marks));
	return marks;
}

void sc_iteration_marks_destroy(struct sc_iteration_marks *marks)
{
	if (!marks)
		return;
	SC_VEC_RELEASE(&marks->kernels);
	SC_VEC_RELEASE(&marks->ranges);
	free(marks);
}

void sc_iteration_marks_see(struct sc_iteration_marks *marks, const struct sc_trace *from,
			    const struct sc_trace_event *event)
{
	const char *name = from->strings.at[event->name];

	if (event->cls == SC_EV_API && !marks->host_lane)
		marks->host_lane = event->lane;
	if (event->cls == SC_EV_RANGE && marks->ranges.n < MAX_RANGES) {
		marks->has_steps |= name && strncmp(name, "ProfilerStep#", 13) == 0;
		SC_VEC_PUSH(&marks->ranges, ((struct range){event->start_ns, event->dur_ns,
							    event->name, event->lane}));
	}
	if (event->cls != SC_EV_KERNEL || event->flags & SC_EVF_NO_TIME)
		return;
	marks->too_many |= marks->kernels.n == MAX_KERNELS;
	if (!marks->too_many)
		SC_VEC_PUSH(&marks->kernels,
			    ((struct kernel){event->start_ns, event->start_ns + event->dur_ns,
					     event->name, event->lane}));
}

static uint32_t put_lane(const struct sc_trace *from, struct sc_trace_writer *out, uint32_t id)
{
	struct sc_trace_lane lane = from->lanes.at[id];
	const char *name = from->strings.at[lane.name];

	lane.name = name ? sc_trace_writer_string(out, name, strlen(name)) : 0;
	return sc_trace_writer_lane(out, &lane);
}

static void put_step(struct sc_trace_writer *out, uint32_t lane, size_t k, int64_t start_ns,
		     int64_t dur_ns)
{
	char name[48];
	int n = snprintf(name, sizeof(name), "ProfilerStep#%zu", k);
	struct sc_trace_event event = {
		.cls = SC_EV_RANGE,
		.lane = lane,
		.start_ns = start_ns,
		.dur_ns = dur_ns,
		.name = sc_trace_writer_string(out, name, (size_t)n),
	};

	sc_trace_writer_add(out, &event);
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void put_named(struct sc_iteration_marks *marks, const struct sc_trace *from,
		      const char *wanted, struct sc_trace_writer *out)
{
	size_t k = 0;

	if (marks->ranges.n)
		qsort(marks->ranges.at, marks->ranges.n, sizeof(*marks->ranges.at), compare_ranges);
	for (size_t i = 0; i < marks->ranges.n; i++) {
		const struct range *range = &marks->ranges.at[i];
		const char *name = from->strings.at[range->name];

		if (name && strcmp(name, wanted) == 0)
			put_step(out, put_lane(from, out, range->lane), k++, range->start_ns,
				 range->dur_ns);
	}
	sc_trace_writer_meta(out, "iteration.source", "range");
}

static int compare_kernels(const void *a, const void *b)
{
	const struct kernel *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* The lane with the most kernels; sorted, they follow each other. */
static size_t busiest(const struct kernel *kernels, size_t n, size_t *n_of)
{
	size_t best = 0;

	*n_of = 0;
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && kernels[end].lane == kernels[i].lane; end++)
			;
		if (end - i > *n_of) {
			*n_of = end - i;
			best = i;
		}
	}
	return best;
}

/* From an iteration's first kernel to the next one's; the last one ends with its last kernel. */
static void put_found(struct sc_iteration_marks *marks, const struct sc_trace *from,
		      struct sc_trace_writer *out)
{
	struct sc_period period = {.n = 0};
	struct kernel *kernels;
	uint32_t *names, lane;
	size_t n;

	if (!marks->kernels.n || marks->too_many || !marks->host_lane)
		return;
	qsort(marks->kernels.at, marks->kernels.n, sizeof(*marks->kernels.at), compare_kernels);
	kernels = marks->kernels.at + busiest(marks->kernels.at, marks->kernels.n, &n);
	names = sc_xmalloc(n * sizeof(*names));
	for (size_t i = 0; i < n; i++)
		names[i] = kernels[i].name;
	if (sc_find_period(names, n, &period)) {
		lane = put_lane(from, out, marks->host_lane);
		for (size_t k = 0; k < period.n; k++) {
			size_t first = period.first + k * period.length,
			       next = first + period.length;
			int64_t end = k + 1 < period.n ? kernels[next].start_ns
						       : kernels[next - 1].end_ns;

			put_step(out, lane, k, kernels[first].start_ns,
				 end - kernels[first].start_ns);
		}
		sc_trace_writer_meta(out, "iteration.source", "periodicity");
	}
	free(names);
}

void sc_iteration_marks_put(struct sc_iteration_marks *marks, const struct sc_trace *from,
			    struct sc_trace_writer *out)
{
	const char *wanted = NULL;

	if (marks->has_steps)
		return;
	for (size_t i = 0; i < from->meta.n; i++) {
		if (strcmp(from->meta.at[i].key, "iteration.range") == 0)
			wanted = from->meta.at[i].value;
	}
	if (wanted)
		put_named(marks, from, wanted, out);
	else
		put_found(marks, from, out);
}
