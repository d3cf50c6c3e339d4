/* Puts events of one class straight into the columns of a frame (docs/trace-format.md), a few
 * nanoseconds each: every column is differences from the row before, nothing is sorted, chosen or
 * compressed. The same format as trace_columns.c writes, larger and in less time; `stepcast record`
 * packs it later. */
#include "trace/capture/capture_columns.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMN_BYTES = SC_FRAME_MAX_ROWS * SC_MAX_VARINT };
/* Ids of columns in files, in the order of `values`; those that most classes have constant last. */
static const uint8_t COLUMN_IDS[SC_N_COLUMNS] = {1, 2, 3, 4, 9, 7, 8, 5, 6, 10, 12, 13, 14};
enum { FIRST_RARE = 7 };

struct sc_class_columns *sc_class_columns_create(void)
{
	struct sc_class_columns *c = calloc(1, sizeof(*c));

	/* Pages that are never written take no memory. */
	if (c)
		c->memory = malloc((size_t)SC_N_COLUMNS * COLUMN_BYTES);
	if (!c || !c->memory) {
		free(c);
		return NULL;
	}
	for (int i = 0; i < SC_N_COLUMNS; i++)
		c->columns[i].at = c->memory + (size_t)i * COLUMN_BYTES;
	return c;
}

void sc_class_columns_destroy(struct sc_class_columns *c)
{
	if (c)
		free(c->memory);
	free(c);
}

/* A difference of 0 is one byte 0; most are, and they are written together. */
static inline void put_equal(struct sc_column *column)
{
	memset(column->at + column->n, 0, column->n_equal);
	column->n += column->n_equal;
	column->n_equal = 0;
}

static inline void column_put(struct sc_column *column, int64_t value, bool is_first)
{
	uint64_t delta = (uint64_t)value - (uint64_t)column->last;

	if (delta == 0 && !is_first) {
		column->n_equal++;
		return;
	}
	if (column->n_equal)
		put_equal(column);
	column->n = (size_t)(sc_put_varint(column->at + column->n, sc_zigzag(delta)) - column->at);
	if (is_first)
		column->n_first = column->n;
	else
		column->varied |= delta;
	column->last = value;
}

static void end_rare(struct sc_class_columns *c)
{
	for (int i = FIRST_RARE; i < SC_N_COLUMNS; i++)
		c->columns[i].n_equal += c->n_rare_equal;
	c->n_rare_equal = 0;
}

void sc_class_columns_add(struct sc_class_columns *c, const struct sc_trace_event *e)
{
	const int64_t values[SC_N_COLUMNS] = {
		e->name,        e->lane,        e->dur_ns, e->start_ns, e->config,
		e->correlation, e->external_id, e->sub,    e->flags,    e->comm,
		e->bytes,       e->aux0,        e->aux1};
	int64_t end = e->start_ns + e->dur_ns;
	bool is_first = c->n == 0;
	uint64_t rare = is_first;

#pragma GCC unroll 7
	for (int i = 0; i < FIRST_RARE; i++)
		column_put(&c->columns[i], values[i], is_first);
#pragma GCC unroll 6
	for (int i = FIRST_RARE; i < SC_N_COLUMNS; i++)
		rare |= (uint64_t)values[i] ^ (uint64_t)c->columns[i].last;
	if (rare) {
		end_rare(c);
		for (int i = FIRST_RARE; i < SC_N_COLUMNS; i++)
			column_put(&c->columns[i], values[i], is_first);
	} else {
		c->n_rare_equal++;
	}
	if (is_first || e->start_ns < c->first_ns)
		c->first_ns = e->start_ns;
	if (is_first || end > c->last_ns)
		c->last_ns = end;
	c->n++;
}

static uint8_t *put_column(struct sc_column *column, uint8_t id, uint8_t *at)
{
	size_t n = column->n_first;

	if (column->varied) {
		put_equal(column);
		n = column->n;
	}
	if (!column->varied && column->last == 0)
		return at; /* absent: 0 */
	*at++ = id;
	*at++ = column->varied ? SC_FORM_DELTA : SC_FORM_CONSTANT;
	at = sc_put_varint(at, n);
	at = sc_put_varint(at, n);
	memcpy(at, column->at, n);
	return at + n;
}

size_t sc_class_columns_most(const struct sc_class_columns *c)
{
	size_t most = SC_FRAME_HEADER_BYTES + SC_FRAME_ALIGN +
		      (size_t)(SC_N_COLUMNS - FIRST_RARE) * c->n_rare_equal;

	for (int i = 0; i < SC_N_COLUMNS; i++)
		most += c->columns[i].n + c->columns[i].n_equal + 2 + 2 * SC_MAX_VARINT;
	return most;
}

size_t sc_class_columns_put(struct sc_class_columns *c, uint8_t cls, uint64_t seq, uint8_t *out,
			    struct sc_frame_header *header)
{
	uint8_t *payload = out + SC_FRAME_HEADER_BYTES, *at = payload;

	end_rare(c);
	for (int i = 0; i < SC_N_COLUMNS; i++)
		at = put_column(&c->columns[i], COLUMN_IDS[i], at);
	*header = (struct sc_frame_header){
		.type = SC_FRAME_EVENTS,
		.sub = cls,
		.n_payload = (uint32_t)(at - payload),
		.count = c->n,
		.seq = seq,
		.first = c->first_ns,
		.last = c->last_ns,
	};
	for (int i = 0; i < SC_N_COLUMNS; i++)
		c->columns[i] = (struct sc_column){.at = c->columns[i].at};
	c->n = 0;
	return sc_frame_seal(out, header);
}
