/* Small traces for tests: events of every class with every member set, in a scratch folder. */
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include "runner.h"
#include "trace/format/trace_file.h"

static char scratch_dir[64], scratch_path[128];

static inline void scratch_begin(void)
{
	strcpy(scratch_dir, "/tmp/stepcast-trace-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(scratch_dir));
	snprintf(scratch_path, sizeof(scratch_path), "%s/a" SC_TRACE_SUFFIX, scratch_dir);
}

static inline void scratch_end(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", scratch_dir);
	ck_assert_int_eq(system(command), 0);
}

static const struct sc_trace_identity fixture_identity = {
	.rank = 3,
	.world = 8,
	.local_rank = 1,
	.pid = 4711,
	.run_id = UINT64_C(0xFEDCBA9876543210),
	.host_hash = 17,
	.base_utc_ns = INT64_C(1700000000000000000),
	.host = "node-7",
	.source = "capture",
};

/* Event `i`: what refers to tables is set by fixture_write. */
static inline struct sc_trace_event fixture_event(unsigned i)
{
	struct sc_trace_event event = {
		.start_ns = 1000 + (int64_t)i * 700 - (i % 3) * 900,
		.dur_ns = 100 + i % 7 * 32,
		.cls = (uint8_t)(i % SC_N_EVENT_CLASSES),
		.sub = (uint8_t)(i % 5),
		.flags = (uint16_t)(i % 4),
		.correlation = i * 3,
		.external_id = (int64_t)i * 5 - 9,
		.bytes = i % 11 ? 0 : INT64_C(1) << (i % 40),
		.aux0 = i % 13 ? 0 : -1 - (int64_t)i,
		.aux1 = (int64_t)i % 2,
	};

	if (event.cls == SC_EV_JOB_OP)
		event.job = (struct sc_trace_job){(int32_t)i, 1, 2, -3, 4, INT32_MAX};
	return event;
}

static inline void fixture_tables(struct sc_trace_writer *w, unsigned i,
				  struct sc_trace_event *event)
{
	struct sc_trace_lane lane = {.is_stream = i % 2,
				     .pid = 4711,
				     .tid = (int32_t)(i % 3),
				     .device = 1,
				     .stream = (int32_t)(i % 4),
				     .context = 1};
	struct sc_trace_config config = {{i % 5 + 1, 2, 3}, {128, 1, 1}, 32, 4096, -1};
	struct sc_trace_comm comm = {.comm_hash = UINT64_MAX - i % 2,
				     .in_elems = 1 << 20,
				     .out_elems = -1,
				     .bytes = 4096,
				     .group_size = 8,
				     .peer = -1,
				     .root = -1,
				     .seq = i / 16};
	char name[32], shapes[64];

	snprintf(name, sizeof(name), "%s %u", sc_event_class_name((enum sc_event_class)event->cls),
		 i % 9);
	snprintf(shapes, sizeof(shapes), "[[%u,64]]|float", i % 6);
	lane.name = sc_trace_writer_string(w, "a lane", 6);
	event->name = sc_trace_writer_string(w, name, strlen(name));
	event->lane = sc_trace_writer_lane(w, &lane);
	if (event->cls == SC_EV_KERNEL)
		event->config = sc_trace_writer_config(w, &config);
	if (event->cls == SC_EV_COMM) {
		comm.collective = sc_trace_writer_string(w, "all_to_all", 10);
		comm.dtype = sc_trace_writer_string(w, "Float", 5);
		event->comm = sc_trace_writer_comm(w, &comm);
	}
	if (event->cls == SC_EV_OP)
		event->shapes = sc_trace_writer_string(w, shapes, strlen(shapes));
}

static inline void fixture_write(const char *path, unsigned n)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_trace_writer *w;

	ck_assert_int_eq(sc_trace_writer_create(path, &fixture_identity, &w, &err), 0);
	sc_trace_writer_meta(w, "device.0.name", "first");
	for (unsigned i = 0; i < n; i++) {
		struct sc_trace_event event = fixture_event(i);

		fixture_tables(w, i, &event);
		sc_trace_writer_add(w, &event);
	}
	sc_trace_writer_clock(w, 5, INT64_C(1700000000000000005));
	sc_trace_writer_gap(w, &(struct sc_trace_gap){SC_EV_API, -1, 10, 20, "buffers were full"});
	sc_trace_writer_meta(w, "device.0.name", "NVIDIA H200");
	sc_trace_writer_meta(w, "empty", "");
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
}

static inline void fixture_load(const char *path, struct sc_trace *out)
{
	struct sc_err err = {.code = SC_OK};

	ck_assert_int_eq(sc_trace_load(path, NULL, out, &err), 0);
}

/* Whole files as bytes. */
static inline unsigned char *bytes_read(const char *path, size_t *n)
{
	FILE *file = fopen(path, "rb");
	unsigned char *bytes = malloc(1 << 20);

	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(bytes);
	*n = fread(bytes, 1, 1 << 20, file);
	ck_assert_int_eq(fclose(file), 0);
	return bytes;
}

static inline void bytes_write(const char *path, const void *bytes, size_t n)
{
	FILE *file;

	remove(path); /* some file systems wait for the disk where a file is overwritten */
	file = fopen(path, "wb");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
	ck_assert_int_eq(fclose(file), 0);
}
