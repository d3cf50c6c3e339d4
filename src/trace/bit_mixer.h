/* Bits of which the likelier values cost less than a bit: an arithmetic coder whose probabilities are
 * learned from the bits before, mixed from several contexts. Coding and decoding are the same calls,
 * so that a model is written once. Integers only: every machine gives the same bytes. */
#ifndef SC_TRACE_BIT_MIXER_H
#define SC_TRACE_BIT_MIXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SC_MIXER_INPUTS = 4,    /* contexts of a bit */
	SC_MIXER_SETS = 128,    /* of weights: which one is used is the model's choice */
	SC_MIXER_MAX_LOG2 = 16, /* of slots an input */
	SC_MIXER_PROB_BITS = 12,
	SC_MIXER_PROBS = 1 << SC_MIXER_PROB_BITS
};
struct sc_bit_mixer {
	/* The coder. */
	bool decodes, failed; /* failed: no room, or more bits than the input has or may have */
	uint32_t low, high, code;
	const uint8_t *in, *in_end;
	uint8_t *out, *out_end;
	unsigned n_beyond;
	size_t n_coded, most; /* bits that were predicted */
	/* What was learned. */
	unsigned shift;                   /* of hashes to slots */
	uint32_t *slots[SC_MIXER_INPUTS]; /* probability of a 1, and how often it was asked */
	int32_t weights[SC_MIXER_SETS][SC_MIXER_INPUTS];
	/* Logistic functions. */
	int16_t stretch[SC_MIXER_PROBS];
	int32_t rates[256];
};
bool sc_bit_mixer_init(struct sc_bit_mixer *m); /* false: no memory */
void sc_bit_mixer_release(struct sc_bit_mixer *m);
/* Forgets what was learned. About n bits will be coded in each context. */
void sc_bit_mixer_reset(struct sc_bit_mixer *m, size_t n);
void sc_bit_mixer_encode(struct sc_bit_mixer *m, uint8_t *out, size_t n_out);
/* Fails after `most` bits that are predicted. */
void sc_bit_mixer_decode(struct sc_bit_mixer *m, const uint8_t *in, size_t n_in, size_t most);
/* Bytes written since encode; 0: they did not fit. */
size_t sc_bit_mixer_end(struct sc_bit_mixer *m, const uint8_t *out);
/* Without a model: the lowest n <= 64 bits of value. */
uint64_t sc_bit_mixer_code_raw(struct sc_bit_mixer *m, uint64_t value, unsigned n);
/* The bit: the one given when coding, the one read when decoding. Contexts are hashes of what is known,
 * `node` is which bit of a value it is, `set` the weights by which the contexts are mixed. */
unsigned sc_bit_mixer_code(struct sc_bit_mixer *m, const uint32_t contexts[SC_MIXER_INPUTS],
			   uint32_t node, unsigned set, unsigned bit);

#endif
