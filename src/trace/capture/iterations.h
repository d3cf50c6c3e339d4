/* Where iterations begin, in a recording that does not say: by what repeats. */
#ifndef SC_TRACE_CAPTURE_ITERATIONS_H
#define SC_TRACE_CAPTURE_ITERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sc_period {
	size_t first, length; /* in events: iteration k begins at first + k * length */
	size_t n;             /* whole iterations */
};
/* The shortest sequence of which at least three follow each other, each like the one before but for one
 * name in fifty, and which so fills at least half of `names` (ids of what a process launched, in order).
 * False: there is none. */
bool sc_find_period(const uint32_t *names, size_t n, struct sc_period *out);

#endif
