#include "trace/capture/iteration_marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANGES = 1 << 20 };

struct range {
	int64_t start_ns, dur_ns;
	uint32_t name, lane;
};
struct sc_iteration_marks {
	SC_VEC(struct range) ranges;
	bool has_steps;
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
	SC_VEC_RELEASE(&marks->ranges);
	free(marks);
}

void sc_iteration_marks_see(struct sc_iteration_marks *marks, const struct sc_trace *from,
			    const struct sc_trace_event *event)
{
	const char *name = from->strings.at[event->name];

	if (event->cls == SC_EV_RANGE && marks->ranges.n < MAX_RANGES) {
		marks->has_steps |= name && strncmp(name, "ProfilerStep#", 13) == 0;
		SC_VEC_PUSH(&marks->ranges, ((struct range){event->start_ns, event->dur_ns,
							    event->name, event->lane}));
	}
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
}
