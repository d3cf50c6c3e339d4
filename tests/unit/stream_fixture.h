/* Scripted traces of GPU streams: ranks that compute, reduce, and copy a result back, step after
 * step. */
#pragma once

#include <stdio.h>

#include "trace/format/trace_file.h"
#include "trace_fixture.h"

enum {
	FIXTURE_LATENCY_NS = 6000, /* of a launch */
	FIXTURE_STEP_NS = 2000000,
	FIXTURE_REDUCE_NS = 50000 /* transfer */
};
struct stream_script {
	int n_ranks, n_steps;
	int64_t gemm_ns[8];    /* by rank */
	bool no_steps;         /* without ProfilerStep ranges */
	bool says_waits;       /* with event waits */
	bool gpu_names;        /* collectives with bytes and group size */
	int n_devices;         /* that each trace lists */
	int64_t first_step_ns; /* that products of the first step take longer */
	int n_hosts;           /* whose names the traces say; 0 = they do not */
};

struct stream_writer {
	struct sc_trace_writer *w;
	uint32_t thread, compute, comm, correlation, reduce;
};

static inline uint32_t put_text(struct stream_writer *s, const char *text)
{
	return sc_trace_writer_string(s->w, text, strlen(text));
}

static inline void put_event(struct stream_writer *s, enum sc_event_class cls, uint32_t lane,
			     const char *name, int64_t start, int64_t dur, uint32_t correlation)
{
	const struct sc_trace_event e = {
		.cls = (uint8_t)cls,
		.lane = lane,
		.name = put_text(s, name),
		.start_ns = start,
		.dur_ns = dur,
		.correlation = correlation,
		.comm = lane == s->comm && cls == SC_EV_KERNEL ? s->reduce : 0,
		.sub = cls == SC_EV_COPY ? SC_COPY_D2H : 0,
	};

	sc_trace_writer_add(s->w, &e);
}

static inline struct stream_writer open_rank(const char *dir, int rank, int world)
{
	const struct sc_trace_identity identity = {
		.rank = rank,
		.world = world,
		.local_rank = rank,
		.base_utc_ns = INT64_C(1700000000000000000),
		.source = "kineto",
	};
	struct sc_trace_lane thread = {.pid = 100, .tid = 100, .device = -1, .stream = -1};
	struct sc_trace_lane stream = {.is_stream = 1, .pid = -1, .tid = -1, .stream = 7};
	struct sc_trace_comm comm = {.comm_hash = 11,
				     .in_elems = 1 << 18,
				     .out_elems = 1 << 18,
				     .bytes = 1 << 20,
				     .group_size = world,
				     .peer = -1,
				     .root = -1,
				     .seq = -1};
	struct stream_writer s = {.correlation = 1};
	char path[256];

	snprintf(path, sizeof(path), "%s/rank%d" SC_TRACE_SUFFIX, dir, rank);
	ck_assert_int_eq(sc_trace_writer_create(path, &identity, &s.w, NULL), 0);
	s.thread = sc_trace_writer_lane(s.w, &thread);
	s.compute = sc_trace_writer_lane(s.w, &stream);
	stream.stream = 20;
	s.comm = sc_trace_writer_lane(s.w, &stream);
	comm.collective = put_text(&s, "allreduce");
	s.reduce = sc_trace_writer_comm(s.w, &comm);
	return s;
}

/* A launch at `at` and what it starts at `start` on a lane. */
static inline void put_launch(struct stream_writer *s, uint32_t lane, const char *name, int64_t at,
			      int64_t start, int64_t dur)
{
	const bool copies = strncmp(name, "Memcpy", 6) == 0;

	put_event(s, SC_EV_API, s->thread, copies ? "cudaMemcpyAsync" : "cudaLaunchKernel", at,
		  4000, s->correlation);
	put_event(s, copies ? SC_EV_COPY : SC_EV_KERNEL, lane, name, start, dur, s->correlation++);
}

/* One step: a product, an all-reduce that starts when the last rank's product is done and goes
 * beside an elementwise kernel, an optimizer that waits for it, a copy that the host waits for.
 * Returns its end. */
static inline int64_t put_step(struct stream_writer *s, const struct stream_script *script,
			       int rank, int step, int64_t begin)
{
	const int64_t gemm = begin + 20000 + FIXTURE_LATENCY_NS;
	const int64_t more = step == 0 ? script->first_step_ns : 0;
	const int64_t own = script->gemm_ns[rank] + more;
	int64_t last = 0, arrive, reduced, t;
	char name[32];

	for (int r = 0; r < script->n_ranks; r++)
		last = script->gemm_ns[r] + more > last ? script->gemm_ns[r] + more : last;
	arrive = gemm + own + 1000;
	reduced = gemm + last + 1000 + FIXTURE_REDUCE_NS;
	put_launch(s, s->compute, "sm80_gemm_f16", begin + 20000, gemm, own);
	put_launch(s, s->comm, "ncclKernel_AllReduce_RING_LL_Sum_float(x)", begin + 30000, arrive,
		   reduced - arrive);
	put_launch(s, s->compute, "vectorized_elementwise_kernel", begin + 40000, gemm + own + 500,
		   30000);
	put_launch(s, s->compute, "multi_tensor_apply_kernel", begin + 50000, reduced + 2500,
		   40000);
	t = reduced + 2500 + 40000 + 500;
	put_event(s, SC_EV_API, s->thread, "cudaMemcpyAsync", begin + 60000,
		  t + 3000 + 10000 - begin - 60000, s->correlation);
	put_event(s, SC_EV_COPY, s->compute, "Memcpy DtoH (Device -> Pageable)", t, 3000,
		  s->correlation++);
	t += 3000 + 10000 + 25000;
	snprintf(name, sizeof(name), "ProfilerStep#%d", 10 + step);
	if (!script->no_steps)
		put_event(s, SC_EV_RANGE, s->thread, name, begin, t - begin, 0);
	return t;
}

/* What the trace of a rank says of its node. */
static inline void put_node(struct stream_writer *s, const struct stream_script *script, int rank)
{
	struct sc_trace_identity identity = {.rank = rank,
					     .world = script->n_ranks,
					     .local_rank = rank,
					     .base_utc_ns = INT64_C(1700000000000000000),
					     .source = "kineto"};
	char key[32];

	for (int d = 0; d < script->n_devices; d++) {
		snprintf(key, sizeof(key), "device.%d.name", d);
		sc_trace_writer_meta(s->w, key, "A100");
		snprintf(key, sizeof(key), "device.%d.sms", d);
		sc_trace_writer_meta(s->w, key, "108");
	}
	if (script->n_hosts)
		snprintf(identity.host, sizeof(identity.host), "node%d", rank % script->n_hosts);
	sc_trace_writer_identity(s->w, &identity);
}

static inline void write_streams(const char *dir, const struct stream_script *script)
{
	for (int r = 0; r < script->n_ranks; r++) {
		struct stream_writer s = open_rank(dir, r, script->n_ranks);

		for (int step = 0; step < script->n_steps; step++)
			put_step(&s, script, r, step, 1000000 + step * (int64_t)FIXTURE_STEP_NS);
		put_node(&s, script, r);
		ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	}
}
