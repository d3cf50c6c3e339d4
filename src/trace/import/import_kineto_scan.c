/* From the text of an event to numbers and slices. Keys may come in any order, and the arguments
 * before the category: so all arguments that any kind of event may have are taken here, and what is
 * made of them is decided later. */
#include <string.h>

#include "trace/import/import_kineto_priv.h"

static const struct sc_scan_word KEYS[] = {
	SC_SCAN_W("ph", KEY_PH),
	SC_SCAN_W("ts", KEY_TS),
	SC_SCAN_W("cat", KEY_CAT),
	SC_SCAN_W("pid", KEY_PID),
	SC_SCAN_W("tid", KEY_TID),
	SC_SCAN_W("dur", KEY_DUR),
	SC_SCAN_W("name", KEY_NAME),
	SC_SCAN_W("args", KEY_ARGS),
	/* Nodes: flat until schema 1.0.1, {"inputs": {"shapes": ...}, "attrs": [...]} since. */
	SC_SCAN_W("rf_id", KEY_ARGUMENT),
	SC_SCAN_W("attrs", KEY_ATTRS),
	SC_SCAN_W("seq_id", KEY_ARGUMENT),
	SC_SCAN_W("fw_tid", KEY_ARGUMENT),
	SC_SCAN_W("inputs", KEY_INPUTS),
	SC_SCAN_W("input_types", KEY_ARGUMENT),
	SC_SCAN_W("input_shapes", KEY_ARGUMENT),
};

/* By length. Up to 2022 names began with a capital; flows are told by their phase. */
static const struct sc_scan_word CATS[] = {
	SC_SCAN_W("Trace", CAT_SPAN),
	SC_SCAN_W("trace", CAT_SPAN),
	SC_SCAN_W("kernel", CAT_KERNEL),
	SC_SCAN_W("Kernel", CAT_KERNEL),
	SC_SCAN_W("Memcpy", CAT_COPY),
	SC_SCAN_W("memcpy", CAT_COPY),
	SC_SCAN_W("Memset", CAT_SET),
	SC_SCAN_W("memset", CAT_SET),
	SC_SCAN_W("cpu_op", CAT_OP),
	SC_SCAN_W("hpu_op", CAT_UNUSED),
	SC_SCAN_W("Runtime", CAT_RUNTIME),
	SC_SCAN_W("runtime", CAT_RUNTIME),
	SC_SCAN_W("Operator", CAT_OP),
	SC_SCAN_W("operator", CAT_OP),
	SC_SCAN_W("overhead", CAT_OVERHEAD),
	SC_SCAN_W("xpu_sync", CAT_UNUSED),
	SC_SCAN_W("cuda_sync", CAT_SYNC),
	SC_SCAN_W("cuda_event", CAT_EVENT),
	SC_SCAN_W("xpu_driver", CAT_DRIVER),
	SC_SCAN_W("gpu_memcpy", CAT_COPY),
	SC_SCAN_W("gpu_memset", CAT_SET),
	SC_SCAN_W("xpu_runtime", CAT_RUNTIME),
	SC_SCAN_W("cuda_driver", CAT_DRIVER),
	SC_SCAN_W("glow_runtime", CAT_UNUSED),
	SC_SCAN_W("mtia_insight", CAT_UNUSED),
	SC_SCAN_W("mtia_runtime", CAT_UNUSED),
	SC_SCAN_W("cuda_runtime", CAT_RUNTIME),
	SC_SCAN_W("mtia_counters", CAT_UNUSED),
	SC_SCAN_W("user_annotation", CAT_ANNOTATION),
	SC_SCAN_W("python_function", CAT_PYTHON),
	SC_SCAN_W("collective_comm", CAT_UNUSED),
	SC_SCAN_W("mtia_ccp_events", CAT_UNUSED),
	SC_SCAN_W("cpu_instant_event", CAT_INSTANT),
	SC_SCAN_W("hardware_counters", CAT_UNUSED),
	SC_SCAN_W("xpu_scope_profiler", CAT_UNUSED),
	SC_SCAN_W("privateuse1_driver", CAT_UNUSED),
	SC_SCAN_W("gpu_user_annotation", CAT_GPU_ANNOTATION),
	SC_SCAN_W("cuda_profiler_range", CAT_UNUSED),
	SC_SCAN_W("privateuse1_runtime", CAT_UNUSED),
	SC_SCAN_W("external_correlation", CAT_UNUSED),
};

enum { TEXT = 0x80 }; /* the id is a kineto_text */
static const struct sc_scan_word ARGS[] = {
	SC_SCAN_W("Seq", NUM_SEQ),
	SC_SCAN_W("grid", TEXT | TEXT_GRID),
	SC_SCAN_W("name", TEXT | TEXT_NAME),
	SC_SCAN_W("block", TEXT | TEXT_BLOCK),
	SC_SCAN_W("bytes", NUM_BYTES),
	SC_SCAN_W("dtype", TEXT | TEXT_DTYPE),
	SC_SCAN_W("labels", TEXT | TEXT_LABELS),
	SC_SCAN_W("device", NUM_DEVICE),
	SC_SCAN_W("stream", NUM_STREAM),
	SC_SCAN_W("event_id", NUM_EVENT),
	SC_SCAN_W("graph id", NUM_GRAPH),
	SC_SCAN_W("Src Rank", NUM_SOURCE_RANK),
	SC_SCAN_W("Dst Rank", NUM_TARGET_RANK),
	SC_SCAN_W("Comms Id", NUM_COMMS_ID),
	SC_SCAN_W("Root Rank", NUM_ROOT),
	SC_SCAN_W("Group size", NUM_GROUP_SIZE),
	SC_SCAN_W("Input Dims", TEXT | TEXT_DIMS),
	SC_SCAN_W("Input type", TEXT | TEXT_TYPES),
	SC_SCAN_W("Input dims", TEXT | TEXT_DIMS),
	SC_SCAN_W("External id", NUM_EXTERNAL_ID),
	SC_SCAN_W("external id", NUM_EXTERNAL_ID),
	SC_SCAN_W("correlation", NUM_CORRELATION),
	SC_SCAN_W("In msg nelems", NUM_IN_ELEMS),
	SC_SCAN_W("shared memory", NUM_SHARED),
	SC_SCAN_W("Fwd thread id", NUM_FORWARD_THREAD),
	SC_SCAN_W("Out msg nelems", NUM_OUT_ELEMS),
	SC_SCAN_W("wait_on_stream", NUM_WAIT_STREAM),
	SC_SCAN_W("cuda_sync_kind", TEXT | TEXT_SYNC_KIND),
	SC_SCAN_W("Sequence number", NUM_SEQUENCE),
	SC_SCAN_W("Collective name", TEXT | TEXT_COLLECTIVE),
	SC_SCAN_W("Process Group ID", TEXT | TEXT_GROUP_NAME),
	SC_SCAN_W("Record function id", NUM_RECORD_FUNCTION),
	SC_SCAN_W("Process Group Name", TEXT | TEXT_GROUP_NAME),
	SC_SCAN_W("Process Group Ranks", TEXT | TEXT_GROUP_RANKS),
	SC_SCAN_W("registers per thread", NUM_REGISTERS),
	SC_SCAN_W("wait_on_cuda_event_id", NUM_WAIT_EVENT),
	SC_SCAN_W("wait_on_cuda_event_record_corr_id", NUM_WAIT_RECORD),
};
/* The same as nodes call it. */
static const struct sc_scan_word ATTRS[] = {
	SC_SCAN_W("types", TEXT | TEXT_TYPES),
	SC_SCAN_W("rf_id", NUM_RECORD_FUNCTION),
	SC_SCAN_W("dtype", TEXT | TEXT_DTYPE),
	SC_SCAN_W("shapes", TEXT | TEXT_DIMS),
	SC_SCAN_W("seq_id", NUM_SEQUENCE),
	SC_SCAN_W("fw_tid", NUM_FORWARD_THREAD),
	SC_SCAN_W("pg_name", TEXT | TEXT_GROUP_NAME),
	SC_SCAN_W("pg_size", NUM_GROUP_SIZE),
	SC_SCAN_W("input_types", TEXT | TEXT_TYPES),
	SC_SCAN_W("input_shapes", TEXT | TEXT_DIMS),
	SC_SCAN_W("in_msg_nelems", NUM_IN_ELEMS),
	SC_SCAN_W("out_msg_nelems", NUM_OUT_ELEMS),
	SC_SCAN_W("collective_name", TEXT | TEXT_COLLECTIVE),
};
#define N(table) (sizeof(table) / sizeof((table)[0]))

void kineto_words_init(struct kineto_words *words)
{
	*words = (struct kineto_words){.last_cat_id = CAT_NONE};
	sc_scan_words_init(&words->keys, KEYS, N(KEYS));
	sc_scan_words_init(&words->cats, CATS, N(CATS));
	sc_scan_words_init(&words->args, ARGS, N(ARGS));
	sc_scan_words_init(&words->attrs, ATTRS, N(ATTRS));
}

/* One table of two kinds needs its keys in the order of their length only. */
static enum kineto_cat find_cat(struct kineto_words *words, const struct sc_scan_value *cat)
{
	int id;

	if (cat->n == words->last_cat.n && cat->n &&
	    memcmp(cat->at, words->last_cat_text, cat->n) == 0)
		return words->last_cat_id;
	if (cat->n == 0 || cat->n > SC_SCAN_MAX_WORD)
		return cat->n ? CAT_UNKNOWN : CAT_NONE;
	id = sc_scan_words_find(&words->cats, cat->at, cat->n);
	memcpy(words->last_cat_text, cat->at, cat->n);
	words->last_cat.n = cat->n;
	words->last_cat_id = id < 0 ? CAT_UNKNOWN : (enum kineto_cat)id;
	return words->last_cat_id;
}

/* Comms Id uses all 64 bits. */
static bool take_num(const struct sc_scan_value *value, unsigned which, int64_t *out)
{
	if (which == NUM_COMMS_ID && value->kind == SC_SCAN_NUMBER && !value->number.negative &&
	    value->number.exponent == 0 && !value->number.inexact) {
		*out = (int64_t)value->number.digits;
		return true;
	}
	if (which == NUM_COMMS_ID && value->kind == SC_SCAN_NUMBER && value->n <= 20) {
		uint64_t all = 0;

		for (size_t i = 0; i < value->n; i++)
			all = all * 10 + (uint64_t)(value->at[i] - '0');
		*out = (int64_t)all;
		return true;
	}
	return sc_scan_any_integer(value, out);
}

static void take_arg(int id, const struct sc_scan_value *value, struct kineto_event *out)
{
	if (id < 0)
		return;
	if (id & TEXT) {
		out->text[id & ~TEXT] = *value;
		out->has_text |= 1u << (id & ~TEXT);
	} else if (take_num(value, (unsigned)id, &out->num[id])) {
		out->has_num |= 1u << id;
	}
}

static enum sc_scan_rc scan_args(const struct sc_scan_words *words, struct sc_scan *scan,
				 struct kineto_event *out)
{
	struct sc_scan_value key, value;
	enum sc_scan_rc rc = sc_scan_open(scan, '{');

	if (rc == SC_SCAN_BAD)
		return sc_scan_value(scan, &value); /* "args": null */
	while (rc == SC_SCAN_OK) {
		rc = sc_scan_key(scan, &key);
		if (rc == SC_SCAN_OK)
			rc = sc_scan_value(scan, &value);
		if (rc == SC_SCAN_OK)
			take_arg(sc_scan_words_find(words, key.at, key.n), &value, out);
	}
	return rc == SC_SCAN_END ? SC_SCAN_OK : rc;
}

/* [{"name": "rf_id", "type": "uint64", "value": 3}, ...] */
static enum sc_scan_rc scan_attrs(struct kineto_words *words, struct sc_scan *scan,
				  struct kineto_event *out)
{
	struct sc_scan_value attrs, attr, key, value;
	enum sc_scan_rc rc = sc_scan_value(scan, &attrs);
	struct sc_scan list;

	if (rc)
		return rc;
	list = sc_scan_into(&attrs);
	if (sc_scan_open(&list, '['))
		return SC_SCAN_OK;
	while (sc_scan_item(&list) == SC_SCAN_OK && sc_scan_value(&list, &attr) == SC_SCAN_OK) {
		struct sc_scan_value name = {.n = 0}, what = {.at = NULL};
		struct sc_scan in = sc_scan_into(&attr);

		if (sc_scan_open(&in, '{'))
			continue;
		while (sc_scan_key(&in, &key) == SC_SCAN_OK &&
		       sc_scan_value(&in, &value) == SC_SCAN_OK)
			if (sc_scan_is(&key, "name", 4))
				name = value;
			else if (sc_scan_is(&key, "value", 5))
				what = value;
		if (what.at && sc_scan_is(&name, "tid", 3))
			out->tid = what;
		else if (what.at)
			take_arg(sc_scan_words_find(&words->attrs, name.at, name.n), &what, out);
	}
	return SC_SCAN_OK;
}

/* Microseconds, in the file a number or a quoted one, to ns without a double between. */
static bool take_time(const struct sc_scan_value *value, int64_t *out)
{
	struct sc_scan own;
	struct sc_scan_value inner;
	char text[64];

	if (value->kind == SC_SCAN_NUMBER)
		return sc_scan_integer(&value->number, 3, out);
	if (value->kind != SC_SCAN_TEXT || value->n == 0 || value->n >= sizeof(text) / 2)
		return false;
	memset(text, 0, sizeof(text));
	memcpy(text, value->at, value->n);
	text[value->n] = ',';
	own = (struct sc_scan){.at = text, .end = text + value->n + 1};
	return sc_scan_value(&own, &inner) == SC_SCAN_OK && inner.kind == SC_SCAN_NUMBER &&
	       own.at == text + value->n && sc_scan_integer(&inner.number, 3, out);
}

static void take_field(struct kineto_words *words, int key, const struct sc_scan_value *value,
		       struct kineto_event *out)
{
	switch (key) {
	case KEY_PH:
		out->phase = value->n == 1 ? *value->at : '?';
		break;
	case KEY_CAT:
		out->cat = value->kind == SC_SCAN_TEXT ? find_cat(words, value) : CAT_NONE;
		break;
	case KEY_NAME:
		out->name = *value;
		break;
	case KEY_PID:
		out->pid = *value;
		break;
	case KEY_TID:
		out->tid = *value;
		break;
	case KEY_TS:
		out->has_ts = take_time(value, &out->ts_ns);
		out->bad_ts = !out->has_ts;
		break;
	case KEY_DUR:
		out->has_dur = take_time(value, &out->dur_ns);
		out->bad_dur = !out->has_dur;
		break;
	default:
		break;
	}
}

enum sc_scan_rc kineto_scan_event(struct kineto_words *words, struct sc_scan *scan,
				  struct kineto_event *out)
{
	struct sc_scan_value key, value;
	enum sc_scan_rc rc = sc_scan_open(scan, '{');

	out->phase = 0;
	out->cat = CAT_NONE;
	out->has_ts = out->bad_ts = out->has_dur = out->bad_dur = false;
	out->name = out->pid = out->tid = (struct sc_scan_value){.kind = SC_SCAN_WORD, .at = ""};
	out->has_num = out->has_text = 0;
	while (rc == SC_SCAN_OK) {
		int id;

		rc = sc_scan_key(scan, &key);
		if (rc)
			break;
		id = sc_scan_words_find(&words->keys, key.at, key.n);
		if (id == KEY_ARGS || id == KEY_INPUTS) {
			rc = scan_args(id == KEY_ARGS ? &words->args : &words->attrs, scan, out);
			continue;
		}
		if (id == KEY_ATTRS) {
			rc = scan_attrs(words, scan, out);
			continue;
		}
		rc = sc_scan_value(scan, &value);
		/* A third of a file is of no use: arrows, and changes of memory. */
		if (rc == SC_SCAN_OK &&
		    ((id == KEY_PH && value.n == 1 && memchr("stf", *value.at, 3)) ||
		     (id == KEY_NAME && out->phase == 'i' && sc_scan_is(&value, "[memory]", 8)))) {
			take_field(words, id, &value, out);
			return sc_scan_leave(scan);
		}
		if (rc == SC_SCAN_OK && id == KEY_ARGUMENT)
			take_arg(sc_scan_words_find(&words->attrs, key.at, key.n), &value, out);
		else if (rc == SC_SCAN_OK && id >= 0)
			take_field(words, id, &value, out);
	}
	return rc == SC_SCAN_END ? SC_SCAN_OK : rc;
}
