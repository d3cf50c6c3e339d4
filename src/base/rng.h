/* Reproducible random numbers: the same seed gives the same numbers on every machine.
 * Generator: xoshiro256**, seeded by splitmix64 (Blackman and Vigna, prng.di.unimi.it). */
#pragma once

#include <stdint.h>

struct sc_rng {
	uint64_t state[4];
};

void sc_rng_init(struct sc_rng *rng, uint64_t seed);
uint64_t sc_rng_next(struct sc_rng *rng);
/* In [0, 1), 53 bits. */
static inline double sc_rng_uniform(struct sc_rng *rng)
{
	return (double)(sc_rng_next(rng) >> 11) * 0x1p-53;
}
uint64_t sc_rng_below(struct sc_rng *rng, uint64_t n); /* 0 .. n-1, unbiased; n > 0 */
double sc_rng_normal(struct sc_rng *rng);              /* mean 0, deviation 1 */
