/* A growing array: SC_VEC(type) name = {0}; SC_VEC_PUSH(&name, value); free with SC_VEC_RELEASE.
 * Invariant: n <= cap; at == NULL only if cap == 0. */
#pragma once

#include <stdlib.h>

#include "base/arena.h"

#define SC_VEC(type)        \
	struct {            \
		type *at;   \
		size_t n;   \
		size_t cap; \
	}
#define SC_VEC_RESERVE(v, want)                                                    \
	do {                                                                       \
		if ((v)->cap < (size_t)(want)) {                                   \
			size_t sc_cap_ = (v)->cap ? (v)->cap * 2 : 16;             \
			if (sc_cap_ < (size_t)(want))                              \
				sc_cap_ = (size_t)(want);                          \
			(v)->at = sc_xrealloc((v)->at, sc_cap_, sizeof(*(v)->at)); \
			(v)->cap = sc_cap_;                                        \
		}                                                                  \
	} while (0)
#define SC_VEC_PUSH(v, value)                          \
	do {                                           \
		if ((v)->n == (v)->cap)                \
			SC_VEC_RESERVE(v, (v)->n + 1); \
		(v)->at[(v)->n++] = (value);           \
	} while (0)
#define SC_VEC_RELEASE(v)              \
	do {                           \
		free((v)->at);         \
		(v)->at = NULL;        \
		(v)->n = (v)->cap = 0; \
	} while (0)
