/* Logistic mixing of adaptive probabilities and a carryless arithmetic coder, after M. Mahoney's lpaq
 * ("Adaptive Weighing of Context Models for Lossless Data Compression", 2005). Files depend on every number
 * here. Shifts to the right keep the sign, as all compilers that we know have it. */
#include "trace/bit_mixer.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t SLOT_START = 1u << 31; /* a half */
static const uint32_t HASH = 0x9E3779B1u, NODE_HASH = 0x85EBCA77u;
enum {
	SLOT_PROB_BITS = 22,
	MAX_SEEN = 60,    /* times that a slot was asked: it learns no slower than after so many */
	SLOT_COUNT = 255, /* the low bits of a slot; the others are its probability, 22 bits */
	SLOT_SHIFT = 10,
	STRETCH_MAX = 2047,
	FIRST_WEIGHT = 22000, /* of 65536 */
	LEARNING_RATE = 70,
	MIN_LOG2_SLOTS = 8,
	MAX_WEIGHT = 200000, /* so that sums of inputs fit 32 bits */
	MAX_BEYOND = 4       /* bytes that decoding may want behind the end */
};

/* 4096 / (1 + e^-(x / 256)) */
static inline int squash(int x)
{
	static const int16_t table[33] = {1,    2,    3,    6,    10,   16,   27,   45,   73,
					  120,  194,  310,  488,  747,  1101, 1546, 2047, 2549,
					  2994, 3348, 3607, 3785, 3901, 3975, 4022, 4050, 4068,
					  4079, 4085, 4089, 4092, 4093, 4094};
	int part = (x + STRETCH_MAX + 1) % 128, at = (x + STRETCH_MAX + 1) / 128;

	if (x > STRETCH_MAX)
		return SC_MIXER_PROBS - 1;
	if (x < -STRETCH_MAX)
		return 1;
	return (table[at] * (128 - part) + table[at + 1] * part + 64) >> 7;
}

bool sc_bit_mixer_init(struct sc_bit_mixer *m)
{
	int next = 0;

	memset(m, 0, sizeof(*m));
	m->slots[0] = malloc(sizeof(**m->slots) * SC_MIXER_INPUTS << SC_MIXER_MAX_LOG2);
	for (int i = 1; m->slots[0] && i < SC_MIXER_INPUTS; i++)
		m->slots[i] = m->slots[i - 1] + (1 << SC_MIXER_MAX_LOG2);
	for (int x = -STRETCH_MAX; x <= STRETCH_MAX; x++) {
		int p = squash(x);

		for (; next <= p; next++)
			m->stretch[next] = (int16_t)x;
	}
	for (; next < SC_MIXER_PROBS; next++)
		m->stretch[next] = STRETCH_MAX;
	for (int i = 0; i <= SLOT_COUNT; i++)
		m->rates[i] = 655360 / (10 * i + 15);
	return m->slots[0] != NULL;
}

void sc_bit_mixer_release(struct sc_bit_mixer *m)
{
	free(m->slots[0]);
	m->slots[0] = NULL;
}

void sc_bit_mixer_reset(struct sc_bit_mixer *m, size_t n)
{
	unsigned log2 = MIN_LOG2_SLOTS;

	while (log2 < SC_MIXER_MAX_LOG2 && (size_t)1 << log2 < n)
		log2++;
	m->shift = 32 - log2;
	for (unsigned i = 0; i < SC_MIXER_INPUTS; i++) {
		for (size_t k = 0; k < (size_t)1 << log2; k++)
			m->slots[i][k] = SLOT_START;
		for (unsigned k = 0; k < SC_MIXER_SETS; k++)
			m->weights[k][i] = FIRST_WEIGHT;
	}
}

/* --- the coder --- */

void sc_bit_mixer_encode(struct sc_bit_mixer *m, uint8_t *out, size_t n_out)
{
	m->decodes = m->failed = false;
	m->low = 0;
	m->high = UINT32_MAX;
	m->out = out;
	m->out_end = out + n_out;
	m->n_coded = 0;
	m->most = SIZE_MAX;
}

static inline uint32_t next_byte(struct sc_bit_mixer *m)
{
	if (m->in < m->in_end)
		return *m->in++;
	if (++m->n_beyond > MAX_BEYOND)
		m->failed = true;
	return 0;
}

void sc_bit_mixer_decode(struct sc_bit_mixer *m, const uint8_t *in, size_t n_in, size_t most)
{
	m->decodes = true;
	m->failed = false;
	m->low = 0;
	m->high = UINT32_MAX;
	m->in = in;
	m->in_end = in + n_in;
	m->n_beyond = 0;
	m->n_coded = 0;
	m->most = most;
	m->code = 0;
	for (int i = 0; i < 4; i++)
		m->code = m->code << 8 | next_byte(m);
}

static void shift_out(struct sc_bit_mixer *m)
{
	while (((m->low ^ m->high) & 0xFF000000u) == 0) {
		if (m->decodes)
			m->code = m->code << 8 | next_byte(m);
		else if (m->out < m->out_end)
			*m->out++ = (uint8_t)(m->high >> 24);
		else
			m->failed = true;
		m->low <<= 8;
		m->high = m->high << 8 | 0xFF;
	}
}

/* p: of a 1, of 4096. */
static inline unsigned code_bit(struct sc_bit_mixer *m, uint32_t p, unsigned bit)
{
	uint32_t low = m->low, high = m->high, range = high - low;
	uint32_t middle = low + (range >> SC_MIXER_PROB_BITS) * p +
			  ((range & (SC_MIXER_PROBS - 1)) * p >> SC_MIXER_PROB_BITS);

	bit = m->decodes ? m->code <= middle : bit;
	high = bit ? middle : high;
	low = bit ? low : middle + 1;
	m->low = low;
	m->high = high;
	if (((low ^ high) & 0xFF000000u) == 0)
		shift_out(m);
	return bit;
}

size_t sc_bit_mixer_end(struct sc_bit_mixer *m, const uint8_t *out)
{
	/* A byte that, with zeros behind it, is between low and high. */
	if (m->out < m->out_end)
		*m->out++ = (uint8_t)((m->low >> 24) + 1);
	else
		m->failed = true;
	return m->failed ? 0 : (size_t)(m->out - out);
}

uint64_t sc_bit_mixer_code_raw(struct sc_bit_mixer *m, uint64_t value, unsigned n)
{
	uint64_t out = 0;

	while (n--)
		out = out << 1 | code_bit(m, 1u << (SC_MIXER_PROB_BITS - 1), value >> n & 1);
	return out;
}

/* --- the model --- */

/* Towards the bit by a share that falls with what the slot has seen. */
static inline uint32_t learn(const struct sc_bit_mixer *m, uint32_t slot, unsigned bit)
{
	uint32_t n = slot & SLOT_COUNT;
	int32_t old = (int32_t)(slot >> SLOT_SHIFT);
	int32_t step = (((int32_t)(bit << SLOT_PROB_BITS) - old) >> 7) * m->rates[n] >> 9;

	return (uint32_t)(old + step) << SLOT_SHIFT | (n < MAX_SEEN ? n + 1 : n);
}

unsigned sc_bit_mixer_code(struct sc_bit_mixer *m, const uint32_t contexts[SC_MIXER_INPUTS],
			   uint32_t node, unsigned set, unsigned bit)
{
	uint32_t *slots[SC_MIXER_INPUTS];
	int32_t inputs[SC_MIXER_INPUTS], *weights = m->weights[set], error, p, sum = 0;

	if (++m->n_coded > m->most)
		m->failed = true;
	node *= NODE_HASH;
#pragma GCC unroll 4
	for (unsigned i = 0; i < SC_MIXER_INPUTS; i++) {
		slots[i] = m->slots[i] + ((contexts[i] ^ node) * HASH >> m->shift);
		inputs[i] = m->stretch[*slots[i] >> (32 - SC_MIXER_PROB_BITS)];
		sum += inputs[i] * weights[i];
	}
	p = squash(sum >> 16);
	bit = code_bit(m, (uint32_t)p, bit);
	error = ((int32_t)(bit << SC_MIXER_PROB_BITS) - p) * LEARNING_RATE;
#pragma GCC unroll 4
	for (unsigned i = 0; i < SC_MIXER_INPUTS; i++) {
		int32_t weight = weights[i] + ((inputs[i] * error + 0x8000) >> 16);

		weight = weight > MAX_WEIGHT ? MAX_WEIGHT : weight;
		weights[i] = weight < -MAX_WEIGHT ? -MAX_WEIGHT : weight;
		*slots[i] = learn(m, *slots[i], bit);
	}
	return bit;
}
