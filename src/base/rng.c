/* See the header for the sources. */
#include "base/rng.h"

#include <assert.h>
#include <math.h>

static uint64_t rotate_left(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

/* splitmix64 */
void sc_rng_init(struct sc_rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9E3779B97F4A7C15u;

		z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
		z = (z ^ z >> 27) * 0x94D049BB133111EBu;
		rng->state[i] = z ^ z >> 31;
	}
}

uint64_t sc_rng_next(struct sc_rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

/* The lowest 2^64 mod n values are drawn again, so that the rest divide evenly. */
uint64_t sc_rng_below(struct sc_rng *rng, uint64_t n)
{
	uint64_t least, value;

	assert(n > 0);
	least = (0 - n) % n;
	do
		value = sc_rng_next(rng);
	while (value < least);
	return value % n;
}

/* Marsaglia's polar method; the second of each pair is dropped: the state is all there is. */
double sc_rng_normal(struct sc_rng *rng)
{
	double u, v, square;

	do {
		u = 2.0 * sc_rng_uniform(rng) - 1.0;
		v = 2.0 * sc_rng_uniform(rng) - 1.0;
		square = u * u + v * v;
	} while (square >= 1.0 || square < 0x1p-100);
	return u * sqrt(-2.0 * log(square) / square);
}
