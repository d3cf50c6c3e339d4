/* NumPy's argsort of doubles, ties and all, for a planner whose plans depend on them. */
#ifndef SC_STUDY_SHARD_NUMPY_SORT_H
#define SC_STUDY_SHARD_NUMPY_SORT_H

#include <stddef.h>

/* index[0..n-1]: where the values of `key` lie, rising. No NAN. */
void sc_numpy_argsort(const double *key, size_t n, size_t *index);

#endif
