/* An event's arguments, as libkineto writes them: ids, launch config, collective, shapes, waits. */
#include <stdlib.h>
#include <string.h>

#include "base/json_stream.h"
#include "trace/export/export_priv.h"

enum { MAX_DIM_DEPTH = 8 };

static void chrome_put_text(struct sc_json_stream *json, const struct sc_trace *trace,
			    const char *key, uint32_t id)
{
	if (id != SC_TRACE_NO_ID)
		sc_json_stream_text(json, key, trace->strings.at[id]);
}

static void put_known(struct sc_json_stream *json, const char *key, int64_t value)
{
	if (value >= 0)
		sc_json_stream_int(json, key, value);
}

static void put_triple(struct sc_json_stream *json, const char *key, const uint32_t of[3])
{
	sc_json_stream_array(json, key);
	for (int i = 0; i < 3; i++)
		sc_json_stream_int(json, NULL, of[i]);
	sc_json_stream_end(json);
}

static void put_comm(struct sc_json_stream *json, const struct sc_trace *trace, uint32_t id)
{
	const struct sc_trace_comm *comm = &trace->comms.at[id];
	const char *collective = trace->strings.at[comm->collective];
	bool receives = strstr(collective, "recv") || strstr(collective, "Recv");

	if (id == SC_TRACE_NO_ID)
		return;
	chrome_put_text(json, trace, "Collective name", comm->collective);
	chrome_put_text(json, trace, "dtype", comm->dtype);
	put_known(json, "In msg nelems", comm->in_elems);
	put_known(json, "Out msg nelems", comm->out_elems);
	put_known(json, "Group size", comm->group_size);
	chrome_put_text(json, trace, "Process Group Name", comm->group_name);
	chrome_put_text(json, trace, "Process Group Ranks", comm->group_ranks);
	put_known(json, receives ? "Src Rank" : "Dst Rank", comm->peer);
	put_known(json, "Root Rank", comm->root);
	put_known(json, "Seq", comm->seq);
	if (comm->comm_hash)
		sc_json_stream_int(json, "Comms Id", (int64_t)comm->comm_hash);
}

static void put_device_args(struct sc_json_stream *json, const struct sc_trace *trace,
			    const struct sc_trace_event *event)
{
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];
	const struct sc_trace_config *config = &trace->configs.at[event->config];

	sc_json_stream_int(json, "device", lane->device);
	sc_json_stream_int(json, "context", lane->context);
	/* HTA takes all that has a stream for a kernel. */
	if (event->cls != SC_EV_GPU_RANGE)
		sc_json_stream_int(json, "stream", lane->stream);
	if (event->cls == SC_EV_COPY || event->cls == SC_EV_SET) {
		sc_json_stream_int(json, "bytes", event->bytes);
		if (event->dur_ns > 0) /* bytes a nanosecond are GB/s */
			sc_json_stream_fixed(json, "memory bandwidth (GB/s)",
					     (double)event->bytes / (double)event->dur_ns, 6);
	}
	if (event->config == SC_TRACE_NO_ID)
		return;
	sc_json_stream_int(json, "registers per thread", config->registers);
	sc_json_stream_int(json, "shared memory", config->shared_bytes);
	put_triple(json, "grid", config->grid);
	put_triple(json, "block", config->block);
	if (config->graph_id > 0)
		sc_json_stream_int(json, "graph id", config->graph_id);
}

static void put_sync_args(struct sc_json_stream *json, const struct sc_trace *trace,
			  const struct sc_trace_event *event)
{
	static const char *const kinds[] = {
		[SC_SYNC_EVENT] = "Event Sync",
		[SC_SYNC_STREAM_WAIT] = "Stream Wait Event",
		[SC_SYNC_STREAM] = "Stream Sync",
		[SC_SYNC_CONTEXT] = "Context Sync",
	};
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];

	sc_json_stream_text(json, "cuda_sync_kind",
			    event->sub < SC_SYNC_OTHER ? kinds[event->sub] : "Unknown");
	sc_json_stream_int(json, "device", lane->device);
	sc_json_stream_int(json, "context", lane->context);
	sc_json_stream_int(json, "stream", lane->stream);
	if (event->sub != SC_SYNC_EVENT && event->sub != SC_SYNC_STREAM_WAIT)
		return;
	sc_json_stream_int(json, "wait_on_cuda_event_id", event->aux0);
	if (event->aux1 < -1)
		sc_json_stream_int(json, "wait_on_stream", SC_SYNC_AUX_STREAM(event->aux1));
	sc_json_stream_int(json, "wait_on_cuda_event_record_corr_id",
			   event->aux1 < -1 ? -1 : event->aux1);
}

/* Is it brackets and whole numbers, well nested? Its length, or 0. */
static size_t check_dims(const char *text)
{
	unsigned depth = 0;

	for (const char *at = text; *at; at++) {
		if (*at == '[' && ++depth > MAX_DIM_DEPTH)
			return 0;
		if (*at == ']' && --depth == 0)
			return (size_t)(at - text) + 1;
		if (depth == 0 || !strchr("[],-0123456789 ", *at))
			return 0;
	}
	return 0;
}

/* "[[64,128],[128]]|float,float" as two arrays. */
static void put_shapes(struct sc_json_stream *json, const char *text)
{
	size_t n = check_dims(text);
	const char *at = text, *end;

	while (at < text + n) {
		char *after = NULL;

		if (*at == '[') {
			sc_json_stream_array(json, at == text ? "Input Dims" : NULL);
		} else if (*at == ']') {
			sc_json_stream_end(json);
		} else if (*at != ',' && *at != ' ') {
			int64_t value = strtoll(at, &after, 10);

			if (after != at)
				sc_json_stream_int(json, NULL, value);
		}
		at = after && after > at ? after : at + 1;
	}
	end = strchr(text, '|');
	if (!end)
		return;
	sc_json_stream_array(json, "Input type");
	do {
		char word[64];
		size_t n_word = strcspn(end + 1, ",");

		snprintf(word, sizeof(word), "%.*s", (int)(n_word < 64 ? n_word : 64), end + 1);
		sc_json_stream_text(json, NULL, word);
		end += 1 + n_word;
	} while (*end);
	sc_json_stream_end(json);
}

void sc_chrome_put_args(struct sc_json_stream *json, const struct sc_trace *trace,
			const struct sc_trace_event *event)
{
	sc_json_stream_object(json, "args");
	if (event->external_id)
		sc_json_stream_int(json, "External id", event->external_id);
	if (event->correlation)
		sc_json_stream_int(json, "correlation", event->correlation);
	if (event->cls == SC_EV_SYNC)
		put_sync_args(json, trace, event);
	else if (trace->lanes.at[event->lane].is_stream)
		put_device_args(json, trace, event);
	if (event->cls == SC_EV_EVENT_RECORD)
		sc_json_stream_int(json, "event_id", event->aux0);
	if (event->cls == SC_EV_OP && event->aux0 >= 0)
		sc_json_stream_int(json, "Sequence number", event->aux0);
	if (event->cls == SC_EV_OP && event->aux1 > 0)
		sc_json_stream_int(json, "Fwd thread id", event->aux1);
	if (event->shapes != SC_TRACE_NO_ID)
		put_shapes(json, trace->strings.at[event->shapes]);
	put_comm(json, trace, event->comm);
	if (event->cls == SC_EV_JOB_OP) {
		sc_json_stream_int(json, "step", event->job.step);
		sc_json_stream_int(json, "dp_rank", event->job.dp_rank);
		sc_json_stream_int(json, "stage", event->job.stage);
		sc_json_stream_int(json, "micro_batch", event->job.micro_batch);
		sc_json_stream_int(json, "chunk", event->job.chunk);
	}
	sc_json_stream_end(json);
}
