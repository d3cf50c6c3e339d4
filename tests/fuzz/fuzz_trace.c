/* Trace files. Input that begins as one is read as it is; other input is frames without checksums
 * (type, class, u16 count, u16 first, u16 length, payload), which are put around it, so that what
 * lies behind the checksums is reached. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "trace/export/export.h"
#include "trace/format/crc32c.h"
#include "trace/format/trace_file.h"
#include "trace/format/trace_frames.h"

enum { PREFIX = 8, MAX_FRAMES = 64 };

static void put_le(uint8_t *at, uint64_t value, unsigned n_bytes)
{
	for (; n_bytes; n_bytes--, value >>= 8)
		*at++ = (uint8_t)value;
}

static void write_frame(FILE *file, const uint8_t *prefix, const uint8_t *payload, size_t n)
{
	uint8_t header[SC_FRAME_HEADER_BYTES] = {0x43, 0x53, 0x46, 0x9E};
	static const uint8_t padding[SC_FRAME_ALIGN];

	header[4] = prefix[0];
	header[6] = prefix[1];
	put_le(header + 8, n, 4);
	header[12] = prefix[2];
	header[13] = prefix[3];
	header[24] = prefix[4];
	header[25] = prefix[5];
	put_le(header + 40, sc_crc32c(0, payload, n), 4);
	put_le(header + 44, sc_crc32c(0, header, SC_FRAME_HEADER_BYTES - 4), 4);
	fwrite(header, 1, sizeof(header), file);
	fwrite(payload, 1, n, file);
	fwrite(padding, 1, (SC_FRAME_ALIGN - n % SC_FRAME_ALIGN) % SC_FRAME_ALIGN, file);
}

static void write_frames(FILE *file, const uint8_t *data, size_t size)
{
	uint8_t header[SC_FILE_HEADER_BYTES];

	sc_file_header_put(header);
	fwrite(header, 1, sizeof(header), file);
	for (int i = 0; i < MAX_FRAMES && size >= PREFIX; i++) {
		size_t n = (size_t)data[6] | (size_t)data[7] << 8;

		if (n > size - PREFIX)
			n = size - PREFIX;
		write_frame(file, data, data + PREFIX, n);
		data += PREFIX + n;
		size -= PREFIX + n;
	}
}

static int count(void *ctx, const struct sc_trace *trace, const struct sc_trace_event *event,
		 struct sc_err *err)
{
	int64_t *n = ctx;

	(void)err;
	if (event->name >= trace->strings.n || event->lane >= trace->lanes.n ||
	    event->config >= trace->configs.n || event->comm >= trace->comms.n ||
	    event->shapes >= trace->strings.n || event->cls >= SC_N_EVENT_CLASSES)
		abort();
	(*n)++;
	return 0;
}

static void check_order(const struct sc_trace *trace)
{
	for (size_t i = 1; i < trace->events.n; i++) {
		if (trace->events.at[i].start_ns < trace->events.at[i - 1].start_ns)
			abort();
	}
}

static void read_all(const char *path)
{
	struct sc_trace trace, tables;
	struct sc_trace_info info;
	int64_t n = 0;
	FILE *out;

	if (sc_trace_load(path, NULL, &trace, NULL))
		return;
	check_order(&trace);
	if (sc_trace_scan(path, count, &n, &tables, NULL) || (size_t)n != trace.events.n)
		abort();
	sc_trace_release(&tables);
	sc_trace_release(&trace);
	if (sc_trace_stat(path, &trace, &info, NULL) || info.counts.total < n)
		abort();
	sc_trace_release(&trace);
	out = fopen("/dev/null", "w");
	if (!out || n > 1000)
		n = -1;
	for (int i = 0; n >= 0 && i < 2; i++)
		sc_export_run(i ? SC_EXPORT_CSV : SC_EXPORT_CHROME,
			      &(struct sc_export_run){.files = &path, .n_files = 1}, out, NULL);
	if (out)
		fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char magic[] = "SCTRACE\n";
	char path[32];
	FILE *file = tmpfile();

	if (!file)
		abort();
	if (size >= 8 && memcmp(data, magic, 8) == 0)
		fwrite(data, 1, size, file);
	else
		write_frames(file, data, size);
	if (fflush(file) != 0)
		abort();
	snprintf(path, sizeof(path), "/dev/fd/%d", fileno(file));
	read_all(path);
	fclose(file);
	return 0;
}
