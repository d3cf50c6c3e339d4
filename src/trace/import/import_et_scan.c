/* Both forms of a node: flat until schema 1.0.1, {"inputs": {"shapes": ...}, "attrs": [...]} since. */
#include <string.h>

#include "trace/import/import_et_priv.h"

enum et_key {
	ET_NAME,
	ET_TS,
	ET_DUR,
	ET_PHASE,
	ET_RF_ID,
	ET_SEQ_ID,
	ET_TID,
	ET_FW_TID,
	ET_INPUTS,
	ET_SHAPES,
	ET_TYPES,
	ET_ATTRS,
	ET_COLLECTIVE,
	ET_DTYPE,
	ET_GROUP,
	ET_IN_ELEMS,
	ET_OUT_ELEMS,
	ET_GROUP_SIZE
};
static const struct sc_scan_word KEYS[] = {
	SC_SCAN_W("ph", ET_PHASE),
	SC_SCAN_W("ts", ET_TS),
	SC_SCAN_W("tid", ET_TID),
	SC_SCAN_W("dur", ET_DUR),
	SC_SCAN_W("name", ET_NAME),
	SC_SCAN_W("rf_id", ET_RF_ID),
	SC_SCAN_W("attrs", ET_ATTRS),
	SC_SCAN_W("dtype", ET_DTYPE),
	SC_SCAN_W("seq_id", ET_SEQ_ID),
	SC_SCAN_W("fw_tid", ET_FW_TID),
	SC_SCAN_W("inputs", ET_INPUTS),
	SC_SCAN_W("pg_name", ET_GROUP),
	SC_SCAN_W("pg_size", ET_GROUP_SIZE),
	SC_SCAN_W("input_types", ET_TYPES),
	SC_SCAN_W("input_shapes", ET_SHAPES),
	SC_SCAN_W("in_msg_nelems", ET_IN_ELEMS),
	SC_SCAN_W("out_msg_nelems", ET_OUT_ELEMS),
	SC_SCAN_W("collective_name", ET_COLLECTIVE),
};

static int find_key(const struct sc_scan_value *key)
{
	for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
		if (KEYS[i].n == key->n && memcmp(KEYS[i].text, key->at, key->n) == 0)
			return KEYS[i].id;
	}
	return -1;
}

/* {"values": ..., "shapes": ..., "types": ...} */
static void take_inputs(const struct sc_scan_value *inputs, struct et_node *out)
{
	struct sc_scan scan = sc_scan_into(inputs);
	struct sc_scan_value key, value;

	if (inputs->kind != SC_SCAN_OBJECT || sc_scan_open(&scan, '{'))
		return;
	while (sc_scan_key(&scan, &key) == SC_SCAN_OK &&
	       sc_scan_value(&scan, &value) == SC_SCAN_OK) {
		if (sc_scan_is(&key, "shapes", 6))
			out->dims = value;
		else if (sc_scan_is(&key, "types", 5))
			out->types = value;
	}
}

static void take_field(int key, const struct sc_scan_value *value, struct et_node *out);

/* {"name": "rf_id", "type": "uint64", "value": 3} */
static void take_attr(const struct sc_scan_value *attr, struct et_node *out)
{
	struct sc_scan scan = sc_scan_into(attr);
	struct sc_scan_value key, value, name = {.n = 0}, what = {.n = 0};
	int id;

	if (attr->kind != SC_SCAN_OBJECT || sc_scan_open(&scan, '{'))
		return;
	while (sc_scan_key(&scan, &key) == SC_SCAN_OK &&
	       sc_scan_value(&scan, &value) == SC_SCAN_OK) {
		if (sc_scan_is(&key, "name", 4))
			name = value;
		else if (sc_scan_is(&key, "value", 5))
			what = value;
	}
	id = name.n ? find_key(&name) : -1;
	if (id >= 0 && id != ET_ATTRS && id != ET_NAME && id != ET_PHASE && what.at)
		take_field(id, &what, out);
}

static void take_attrs(const struct sc_scan_value *attrs, struct et_node *out)
{
	struct sc_scan scan = sc_scan_into(attrs);
	struct sc_scan_value attr;

	if (attrs->kind != SC_SCAN_LIST || sc_scan_open(&scan, '['))
		return;
	while (sc_scan_item(&scan) == SC_SCAN_OK && sc_scan_value(&scan, &attr) == SC_SCAN_OK)
		take_attr(&attr, out);
}

static void take_number(const struct sc_scan_value *value, int64_t *out)
{
	int64_t number;

	if (sc_scan_any_integer(value, &number))
		*out = number;
}

static bool take_us(const struct sc_scan_value *value, int64_t *out)
{
	return value->kind == SC_SCAN_NUMBER && sc_scan_integer(&value->number, 3, out);
}

static void take_field(int key, const struct sc_scan_value *value, struct et_node *out)
{
	bool is_text = value->kind == SC_SCAN_TEXT;

	switch (key) {
	case ET_NAME:
		out->name = *value;
		break;
	case ET_TS:
		out->has_ts = take_us(value, &out->ts_ns);
		break;
	case ET_DUR:
		if (!take_us(value, &out->dur_ns) || out->dur_ns < 0)
			out->dur_ns = 0;
		break;
	case ET_PHASE:
		out->is_event = true;
		break;
	case ET_RF_ID:
		take_number(value, &out->rf_id);
		break;
	case ET_SEQ_ID:
		take_number(value, &out->seq_id);
		break;
	case ET_TID:
		take_number(value, &out->tid);
		break;
	case ET_FW_TID:
		take_number(value, &out->fw_tid);
		break;
	case ET_INPUTS:
		take_inputs(value, out);
		break;
	case ET_SHAPES:
		out->dims = *value;
		break;
	case ET_TYPES:
		out->types = *value;
		break;
	case ET_ATTRS:
		take_attrs(value, out);
		break;
	case ET_COLLECTIVE:
		out->collective = is_text ? *value : out->collective;
		break;
	case ET_DTYPE:
		out->dtype = is_text ? *value : out->dtype;
		break;
	case ET_GROUP:
		out->group_name = is_text ? *value : out->group_name;
		break;
	case ET_IN_ELEMS:
		take_number(value, &out->in_elems);
		break;
	case ET_OUT_ELEMS:
		take_number(value, &out->out_elems);
		break;
	case ET_GROUP_SIZE:
		take_number(value, &out->group_size);
		break;
	default:
		break;
	}
}

enum sc_scan_rc et_scan_node(struct sc_scan *scan, struct et_node *out)
{
	struct sc_scan_value key, value;
	enum sc_scan_rc rc = sc_scan_open(scan, '{');

	*out = (struct et_node){.rf_id = -1, .seq_id = -1, .in_elems = -1, .out_elems = -1};
	out->group_size = -1;
	out->name.at = "";
	while (rc == SC_SCAN_OK) {
		int id;

		rc = sc_scan_key(scan, &key);
		if (rc == SC_SCAN_OK)
			rc = sc_scan_value(scan, &value);
		if (rc)
			break;
		id = find_key(&key);
		if (id >= 0)
			take_field(id, &value, out);
	}
	return rc == SC_SCAN_END ? SC_SCAN_OK : rc;
}

/* The inside of the first "Tensor(float)" of a list of types. */
static struct sc_scan_value tensor_dtype(const struct sc_scan_value *types)
{
	struct sc_scan_value none = {.n = 0}, out = none;
	const char *at = types->n ? memchr(types->at, '(', types->n) : NULL, *end;

	if (!at || at - types->at < 6 || memcmp(at - 6, "Tensor", 6) != 0)
		return none;
	end = types->at + types->n;
	out.at = at + 1;
	while (at < end && *at != ')')
		at++;
	out.n = (size_t)(at - out.at);
	out.kind = SC_SCAN_TEXT;
	return at < end ? out : none;
}

bool et_node_comm(struct sc_import_names *names, const struct et_node *node,
		  struct sc_trace_comm *comm)
{
	const char *colon = node->name.n ? memchr(node->name.at, ':', node->name.n) : NULL;
	struct sc_scan_value dtype = node->dtype.n ? node->dtype : tensor_dtype(&node->types);
	uint32_t flags = sc_import_name(names, node->name.at, node->name.n)->flags;

	sc_trace_comm_init(comm);
	if (!(flags & (SC_NAME_CALL | SC_NAME_PARAM_COMMS)))
		return false;
	comm->collective = sc_import_text(names, &node->collective);
	if (!comm->collective && (flags & SC_NAME_CALL) && colon)
		comm->collective =
			sc_import_name(names, colon + 1,
				       node->name.n - 1 - (size_t)(colon - node->name.at))
				->id;
	comm->dtype = sc_import_text(names, &dtype);
	comm->group_name = sc_import_text(names, &node->group_name);
	comm->in_elems = node->in_elems;
	comm->out_elems = node->out_elems;
	comm->group_size = node->group_size > INT32_MAX ? -1 : (int32_t)node->group_size;
	if (comm->in_elems < 0 && node->dims.kind == SC_SCAN_LIST && node->dims.n)
		comm->in_elems = sc_import_elems(node->dims.at, node->dims.n);
	sc_import_comm_bytes(comm, dtype.n ? sc_import_dtype_bytes(dtype.at, dtype.n) : 0);
	return comm->collective != 0;
}
