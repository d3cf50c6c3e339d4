/* A value is coded as whether it is 0, the number of its bits, then these, highest first; each bit in the
 * contexts of what was coded of the value so far together with other values. A letter is coded as whether it
 * is the one that followed when the letters before it stood last; if not, bit by bit.
 *
 * It stays because zstd does not reach 6 bytes an event in all public traces of more than 120 events. Bytes
 * an event, and of zstd -19 with a dictionary of 100 kB (the common names, columns of our own recordings),
 * the better of varints and byte planes; column by column, and all columns of a file in one:
 *   HTA, sample of 128 ranks      5.97   6.91   6.63
 *   PARAM, DLRM, with shapes      5.10   6.00   5.78
 *   HTA, additions, one pass      5.15   6.18   5.33
 *   PARAM, DLRM on 8 V100         4.11   4.91   4.62
 *   HTA, ranges on the GPU        2.80   3.39   2.95
 *   DeepSeek, 64 H800             1.85   1.90   1.90
 * In long columns, which have no model and are packed by zstd -3, zstd -19 alone is 3 to 12 % shorter. */
#include "trace/column_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "trace/bit_mixer.h"
#include "trace/common_names.h"

enum {
	SIZE_BITS = 4,                 /* of the number of bits less 1 */
	ESCAPE = (1 << SIZE_BITS) - 1, /* as many or more: then six bits that are not predicted */
	MODELLED_BITS = 16,            /* of a value; what is below is taken as it is */
	MAX_BITS = 512, /* that a byte may say, besides one a value: bounds the time of reading */
	N_ORDERS = 2,
	MAX_ORDER = 6,
	ORDER_LOG2 = 17,     /* of entries of a table of where letters stood */
	MIN_ORDER_LOG2 = 10, /* of them in use for a short text */
	RUN = 8,
	MIN_RIGHT = 16, /* letters before a run is thought of */
	MAX_RUNS = 12,  /* that are told apart */
	MAX_RIGHT = 20, /* letters that are told apart */
	/* Sets of weights, of values and of texts. */
	SET_ZERO = 0,
	SET_SIZE = 1,
	SET_BITS = SET_SIZE + (1 << SIZE_BITS),
	SET_HIT = 0,
	SET_LETTER = 1,
	SET_RUN = SET_LETTER + 8
};
static const unsigned ORDERS[N_ORDERS] = {MAX_ORDER, 3};
static_assert(SC_NAMES_MAX_BYTES <= UINT16_MAX, "places in the names have 16 bits");

struct sc_column_model {
	struct sc_bit_mixer mixer;
	/* Where letters last stood, by a hash of those before: in the text, and in the common names. */
	uint32_t seen[N_ORDERS][1 << ORDER_LOG2];
	uint16_t known[N_ORDERS][1 << ORDER_LOG2];
	size_t n_known; /* bytes of the common names, which begin the history; 0: not there yet */
	unsigned seen_shift; /* of hashes, so that short texts use a small part of `seen` */
	uint8_t history[SC_NAMES_MAX_BYTES + SC_MODEL_MAX_TEXT];
};

struct sc_column_model *sc_column_model_create(void)
{
	struct sc_column_model *model = malloc(sizeof(*model));

	if (model && !sc_bit_mixer_init(&model->mixer)) {
		free(model);
		return NULL;
	}
	if (model)
		model->n_known = 0;
	return model;
}

void sc_column_model_destroy(struct sc_column_model *model)
{
	if (!model)
		return;
	sc_bit_mixer_release(&model->mixer);
	free(model);
}

/* --- values --- */

static inline uint32_t mix(uint32_t a, uint32_t b)
{
	return (a ^ (b + 0x9E3779B9u + (a << 6) + (a >> 2))) * 0x85EBCA6Bu;
}

static unsigned code_size(struct sc_bit_mixer *m, const uint32_t *contexts, unsigned size)
{
	uint32_t node = 1;
	unsigned first = size < ESCAPE ? size : ESCAPE;

	for (unsigned i = SIZE_BITS; i--;)
		node = node << 1 |
		       sc_bit_mixer_code(m, contexts, node, SET_SIZE + node, first >> i & 1);
	first = node & ESCAPE;
	if (first < ESCAPE)
		return first;
	return ESCAPE + (unsigned)sc_bit_mixer_code_raw(m, size - ESCAPE, 6);
}

static uint64_t code_value(struct sc_bit_mixer *m, const uint32_t *contexts, uint64_t value)
{
	unsigned size = value ? 63 - (unsigned)__builtin_clzll(value) : 0, depth = 0;
	uint32_t node;
	uint64_t out = 1;

	if (!sc_bit_mixer_code(m, contexts, 0, SET_ZERO, value != 0))
		return 0;
	size = code_size(m, contexts, size);
	if (size > 63) {
		m->failed = true; /* no 64-bit value: damage */
		return 0;
	}
	node = size + ESCAPE + 1;
	for (; size && depth < MODELLED_BITS; depth++) {
		size--;
		node = node << 1 |
		       sc_bit_mixer_code(m, contexts, node, SET_BITS + depth, value >> size & 1);
		out = out << 1 | (node & 1);
	}
	return size ? out << size | sc_bit_mixer_code_raw(m, value, size) : out;
}

/* Small ones as they are, others by about their size. */
static uint32_t rough(uint64_t value)
{
	unsigned n = value ? 64 - (unsigned)__builtin_clzll(value) : 0;

	return n <= 12 ? (uint32_t)value : 4096 + n * 4 + (uint32_t)(value >> (n - 3) & 3);
}

/* Contexts: none; the value before; the key; both of these and the value before that. */
static bool code_values(struct sc_bit_mixer *m, const uint32_t *keys, uint64_t *values, size_t n)
{
	uint32_t last = 0, before = 0;

	sc_bit_mixer_reset(m, n * 4);
	for (size_t i = 0; i < n && !m->failed; i++) {
		uint32_t key = mix(keys[i], 1);
		const uint32_t contexts[SC_MIXER_INPUTS] = {0, last, key,
							    mix(last, mix(before, key))};

		values[i] = code_value(m, contexts, values[i]);
		before = last;
		last = rough(values[i]);
	}
	return !m->failed;
}

size_t sc_column_model_put(struct sc_column_model *model, const uint32_t *keys,
			   const uint64_t *values, size_t n, uint8_t *out, size_t n_out)
{
	struct sc_bit_mixer *m = &model->mixer;
	size_t n_bytes;

	sc_bit_mixer_encode(m, out, n_out);
	/* Coding gives back the same values. */
	code_values(m, keys, (uint64_t *)values, n);
	n_bytes = sc_bit_mixer_end(m, out);
	return m->n_coded <= n + MAX_BITS * n_bytes ? n_bytes : 0;
}

bool sc_column_model_get(struct sc_column_model *model, const uint32_t *keys, const uint8_t *in,
			 size_t n_in, uint64_t *values, size_t n)
{
	sc_bit_mixer_decode(&model->mixer, in, n_in, n + MAX_BITS * n_in);
	memset(values, 0, n * sizeof(*values));
	return code_values(&model->mixer, keys, values, n);
}

/* --- text --- */

/* What is expected next: the letter that followed when these letters stood last. */
struct expected {
	uint32_t at;             /* in the history; 0: nothing is */
	unsigned order, n_right; /* which of ORDERS found it; how often it was right since */
};

/* Hashes of the letters before, for each of ORDERS. */
static inline void hash_before(const uint8_t *at, uint32_t hashes[N_ORDERS])
{
	uint64_t letters = 0;

	for (int i = MAX_ORDER; i > 0; i--)
		letters = letters << 8 | at[-i];
	for (unsigned i = 0; i < N_ORDERS; i++) {
		uint64_t last = letters & ((UINT64_C(1) << 8 * ORDERS[i]) - 1);

		hashes[i] = (uint32_t)(last * UINT64_C(0x9E3779B97F4A7C15) >> 32);
	}
}

/* What is expected at `at`, unless e already says it; what stands before is kept for later. */
static void see(struct sc_column_model *model, uint32_t at, struct expected *e)
{
	uint32_t hashes[N_ORDERS];

	hash_before(model->history + at, hashes);
	for (unsigned i = 0; i < N_ORDERS; i++) {
		uint32_t *seen = &model->seen[i][hashes[i] >> model->seen_shift];

		if (!e->at)
			e->at = *seen ? *seen : model->known[i][hashes[i] >> (32 - ORDER_LOG2)];
		if (!e->at)
			e->order = i + 1;
		*seen = at;
	}
}

static bool code_hit(struct sc_column_model *model, uint32_t at, const struct expected *e)
{
	const uint8_t *h = model->history + at;
	uint32_t letter = model->history[e->at];
	uint32_t n = e->n_right < MAX_RIGHT ? e->n_right : MAX_RIGHT;
	const uint32_t contexts[SC_MIXER_INPUTS] = {
		mix(n, e->order),
		mix(letter, h[-1]),
		mix(letter, 1000 + (n < 3 ? n : 3)),
		mix(letter, (uint32_t)h[-1] | (uint32_t)h[-2] << 8 | (uint32_t)h[-3] << 16),
	};

	return sc_bit_mixer_code(&model->mixer, contexts, 0, SET_HIT, *h == letter);
}

/* After many that were right, whether the next RUN letters are, in one: most of a long name is another's.
 * True: they are, and stand in the history. */
static bool code_run(struct sc_column_model *model, uint32_t at, const struct expected *e)
{
	uint8_t *h = model->history + at;
	const uint8_t *from = model->history + e->at;
	uint32_t n = e->n_right / RUN < MAX_RUNS ? e->n_right / RUN : MAX_RUNS;
	const uint32_t contexts[SC_MIXER_INPUTS] = {n, mix(from[0], 1), mix(from[0], h[-1]),
						    mix(mix(from[0], from[1]), from[2])};

	if (!sc_bit_mixer_code(&model->mixer, contexts, RUN, SET_RUN, memcmp(h, from, RUN) == 0))
		return false;
	memcpy(h, from, RUN);
	return true;
}

/* As many letters as were expected rightly: RUN, 1 or 0. A run is not asked for again before *next_run. */
static uint32_t code_expected(struct sc_column_model *model, uint32_t at, uint32_t end,
			      const struct expected *e, uint32_t *next_run)
{
	if (!e->at)
		return 0;
	if (e->n_right >= MIN_RIGHT && at >= *next_run && at + RUN <= end && e->at + RUN <= at) {
		if (code_run(model, at, e))
			return RUN;
		*next_run = at + RUN;
	}
	if (!code_hit(model, at, e))
		return 0;
	model->history[at] = model->history[e->at];
	return 1;
}

static void code_letter(struct sc_column_model *model, uint32_t at)
{
	uint8_t *h = model->history + at;
	uint32_t before[SC_MIXER_INPUTS] = {0, 0, 0, 0}, node = 1, letter = *h;

	for (unsigned i = 1; i < SC_MIXER_INPUTS; i++)
		before[i] = mix(before[i - 1], h[-(int)i] + 1u);
	for (unsigned i = 8; i--;)
		node = node << 1 | sc_bit_mixer_code(&model->mixer, before, node, SET_LETTER + i,
						     letter >> i & 1);
	*h = (uint8_t)node;
}

static void begin_text(struct sc_column_model *model, size_t n)
{
	unsigned log2 = MIN_ORDER_LOG2;

	if (!model->n_known) {
		model->n_known = sc_common_names_put(model->history);
		memset(model->known, 0, sizeof(model->known));
		for (uint32_t at = MAX_ORDER; at < model->n_known; at++) {
			uint32_t hashes[N_ORDERS];

			hash_before(model->history + at, hashes);
			for (unsigned i = 0; i < N_ORDERS; i++)
				model->known[i][hashes[i] >> (32 - ORDER_LOG2)] = (uint16_t)at;
		}
	}
	while (log2 < ORDER_LOG2 && (size_t)1 << log2 < 2 * n)
		log2++;
	model->seen_shift = 32 - log2;
	for (unsigned i = 0; i < N_ORDERS; i++)
		memset(model->seen[i], 0, sizeof(**model->seen) << log2);
	sc_bit_mixer_reset(&model->mixer, n * 4);
}

/* n letters of the history behind the common names. */
static bool code_text(struct sc_column_model *model, size_t n)
{
	struct expected e = {.at = 0};
	uint32_t at = (uint32_t)model->n_known, end = at + (uint32_t)n, next_run = 0;

	while (at < end && !model->mixer.failed) {
		uint32_t n_right;

		see(model, at, &e);
		n_right = code_expected(model, at, end, &e, &next_run);
		if (n_right) {
			e.at += n_right;
			e.n_right += n_right;
			at += n_right;
		} else {
			e = (struct expected){.at = 0};
			code_letter(model, at++);
		}
	}
	return !model->mixer.failed;
}

size_t sc_column_model_put_text(struct sc_column_model *model, const uint8_t *text, size_t n,
				uint8_t *out, size_t n_out)
{
	begin_text(model, n);
	memcpy(model->history + model->n_known, text, n);
	sc_bit_mixer_encode(&model->mixer, out, n_out);
	code_text(model, n);
	return sc_bit_mixer_end(&model->mixer, out);
}

bool sc_column_model_get_text(struct sc_column_model *model, const uint8_t *in, size_t n_in,
			      uint8_t *text, size_t n)
{
	bool good;

	begin_text(model, n);
	memset(model->history + model->n_known, 0, n);
	sc_bit_mixer_decode(&model->mixer, in, n_in, SIZE_MAX);
	good = code_text(model, n);
	memcpy(text, model->history + model->n_known, n);
	return good;
}
