/* Finds where iterations begin by what repeats, in a recording that does not say it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sc_launches {
	const uint32_t *names; /* ids of what a process launched, in order */
	const bool *meets; /* n + 1, or NULL: just before it, and after the last one, the host sent
			    * data to the device or took it */
	size_t n;
};
struct sc_period {
	size_t first, length; /* in launches: iteration k begins at first + k * length */
	size_t n;             /* whole iterations */
};
/* The shortest sequence of which at least three follow each other, each like the one before but for
 * one name in fifty, and which so fills at least half of the launches. Layers within one step
 * repeat, too: what repeats while the host takes part once, or just before and after it only, is
 * none. False: there is no such sequence. */
bool sc_period_find(const struct sc_launches *launches, struct sc_period *out);
/* Do two sequences differ in one name of fifty at most? */
bool sc_period_alike(const uint32_t *a, const uint32_t *b, size_t n);
