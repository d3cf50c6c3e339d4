/* numpy.argsort's default sort before it had vector code (up to 1.24): quicksort on the median of three
 * with insertion for 16 or fewer. It is not stable, so equal keys end in an order of its own. Beyond
 * 2 log2(n) levels it turns to heapsort; then this sorts on, right but with ties of another order. */
#include "study/shard/shard_numpy_sort.h"

enum { SMALL = 16, MAX_STACK = 64 }; /* the larger part waits, so log2(n) parts at most */

struct part {
	size_t low, high; /* both inside */
};

static void swap(size_t *a, size_t *b)
{
	size_t kept = *a;

	*a = *b;
	*b = kept;
}

static void insertion_sort(const double *key, size_t *index, struct part part)
{
	for (size_t i = part.low + 1; i <= part.high; i++) {
		size_t moved = index[i], k = i;

		for (; k > part.low && key[moved] < key[index[k - 1]]; k--)
			index[k] = index[k - 1];
		index[k] = moved;
	}
}

/* Puts a pivot where it belongs, lower keys below it; returns its place. */
static size_t partition(const double *key, size_t *index, struct part part)
{
	size_t low = part.low, high = part.high, middle = low + (high - low) / 2;
	size_t i = low, k = high - 1;
	double pivot;

	if (key[index[middle]] < key[index[low]])
		swap(&index[middle], &index[low]);
	if (key[index[high]] < key[index[middle]])
		swap(&index[high], &index[middle]);
	if (key[index[middle]] < key[index[low]])
		swap(&index[middle], &index[low]);
	pivot = key[index[middle]];
	swap(&index[middle], &index[k]);
	for (;;) {
		do
			i++;
		while (key[index[i]] < pivot);
		do
			k--;
		while (pivot < key[index[k]]);
		if (i >= k)
			break;
		swap(&index[i], &index[k]);
	}
	swap(&index[i], &index[high - 1]);
	return i;
}

void sc_numpy_argsort(const double *key, size_t n, size_t *index)
{
	struct part waiting[MAX_STACK], part = {0, n - 1};
	size_t n_waiting = 0;

	for (size_t i = 0; i < n; i++)
		index[i] = i;
	while (n > 1) {
		while (part.high - part.low > SMALL) {
			size_t at = partition(key, index, part);
			struct part left = {part.low, at - 1}, right = {at + 1, part.high};

			if (at - part.low < part.high - at) {
				waiting[n_waiting++] = right;
				part = left;
			} else {
				waiting[n_waiting++] = left;
				part = right;
			}
		}
		insertion_sort(key, index, part);
		if (n_waiting == 0)
			return;
		part = waiting[--n_waiting];
	}
}
