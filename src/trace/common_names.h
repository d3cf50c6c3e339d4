/* Names that a user of PyTorch, CUDA and NCCL meets in any trace: what the texts of trace files are
 * predicted from before they have any of their own. Files depend on every letter: a change needs a new
 * number, and the old list stays. */
#ifndef SC_TRACE_COMMON_NAMES_H
#define SC_TRACE_COMMON_NAMES_H

#include <stddef.h>
#include <stdint.h>

enum { SC_NAMES_NUMBER = 1, SC_NAMES_MAX_BYTES = 48 << 10 };

/* All names, each behind a NUL and ended by one. Returns the bytes. */
size_t sc_common_names_put(uint8_t out[SC_NAMES_MAX_BYTES]);

#endif
