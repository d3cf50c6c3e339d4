/* trace_check TRACE [--at-least N] [--exactly N] [--missing N]: are the producer's kernels there,
 * whole, each once, no more than N (0) missing between the first and the last of a thread? Prints
 * key=value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/fake_cupti.h"
#include "trace/format/trace_file.h"

enum { MAX_THREADS = 64 };

static int n_problems;

static void problem(const char *what, uint32_t correlation)
{
	if (n_problems++ < 10)
		printf("problem: %s correlation=%08x\n", what, correlation);
}

static void check_kernel(const struct sc_trace *trace, const struct sc_trace_event *event,
			 long long *no_name)
{
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];
	const struct sc_trace_config *config = &trace->configs.at[event->config];
	uint32_t id = event->correlation;

	if (!(event->flags & SC_EVF_NO_TIME) && event->dur_ns != (int64_t)fake_duration_ns(id))
		problem("duration", id);
	if (config->grid[0] != (uint32_t)fake_grid(id) || config->block[0] != 128)
		problem("launch configuration", id);
	if (!lane->is_stream || lane->stream != (int32_t)fake_stream(id))
		problem("stream", id);
	if (event->name == 0)
		++*no_name;
}

int main(int argc, char **argv)
{
	static uint8_t *seen[MAX_THREADS];
	static uint32_t last[MAX_THREADS];
	long long n = 0, n_no_name = 0, at_least = -1, exactly = -1, n_external = 0, n_waits = 0;
	long long n_noisy = 0, n_timed = 0, n_untimed = 0, may_miss = 0, n_driver = 0;
	struct sc_trace trace;
	struct sc_err err = {.code = SC_OK};

	for (int i = 2; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--at-least") == 0)
			at_least = atoll(argv[i + 1]);
		else if (strcmp(argv[i], "--exactly") == 0)
			exactly = atoll(argv[i + 1]);
		else if (strcmp(argv[i], "--missing") == 0)
			may_miss = atoll(argv[i + 1]);
	}
	if (argc < 2 || sc_trace_load(argv[1], NULL, &trace, &err)) {
		printf("problem: %s\n", err.text);
		return 1;
	}
	for (size_t i = 0; i < trace.events.n; i++) {
		const struct sc_trace_event *event = &trace.events.at[i];
		uint32_t thread = event->correlation >> 24, number = event->correlation & 0xffffff;

		if (event->cls == SC_EV_SYNC && event->aux1 > 0)
			n_waits++;
		if (event->cls == SC_EV_API && event->external_id)
			n_external++;
		if (event->cls == SC_EV_API &&
		    strcmp(trace.strings.at[event->name], "cudaStreamIsCapturing") == 0)
			n_noisy++;
		n_driver += event->cls == SC_EV_API && event->flags & SC_EVF_DRIVER;
		n_timed += event->cls == SC_EV_EVENT_RECORD && !(event->flags & SC_EVF_NO_TIME);
		if (event->cls != SC_EV_KERNEL || thread >= MAX_THREADS)
			continue;
		n++;
		n_untimed += event->flags & SC_EVF_NO_TIME;
		check_kernel(&trace, event, &n_no_name);
		if (!seen[thread])
			seen[thread] = calloc(1, 1 << 24);
		if (seen[thread][number]++)
			problem("twice", event->correlation);
		if (number > last[thread])
			last[thread] = number;
	}
	for (uint32_t t = 0; t < MAX_THREADS; t++) {
		for (uint32_t k = 1; seen[t] && k <= last[t]; k++) {
			if (!seen[t][k] && may_miss-- <= 0)
				problem("missing", t << 24 | k);
		}
	}
	printf("events=%zu\nkernels=%lld\nunnamed=%lld\nexternal=%lld\nwaits=%lld\npartial=%d\ngaps=%zu\n"
	       "bad_frames=%lld\nrank=%d\nworld=%d\nnoisy=%lld\ndriver=%lld\ntimed_records=%lld\nuntimed=%lld\n",
	       trace.events.n, n, n_no_name, n_external, n_waits, trace.partial, trace.gaps.n,
	       (long long)trace.n_bad_frames, trace.identity.rank, trace.identity.world, n_noisy,
	       n_driver, n_timed, n_untimed);
	for (size_t i = 0; i < trace.gaps.n; i++)
		printf("gap=%.3f %.3f %lld %s\n", (double)trace.gaps.at[i].first_ns / 1e9,
		       (double)trace.gaps.at[i].last_ns / 1e9, (long long)trace.gaps.at[i].n,
		       trace.gaps.at[i].reason);
	for (size_t i = 0; i < trace.meta.n; i++)
		printf("meta.%s=%s\n", trace.meta.at[i].key, trace.meta.at[i].value);
	sc_trace_release(&trace);
	for (int t = 0; t < MAX_THREADS; t++)
		free(seen[t]);
	if ((at_least >= 0 && n < at_least) || (exactly >= 0 && n != exactly)) {
		printf("problem: %lld kernels, wanted %s %lld\n", n,
		       exactly >= 0 ? "exactly" : "at least", exactly >= 0 ? exactly : at_least);
		return 1;
	}
	return n_problems != 0;
}
