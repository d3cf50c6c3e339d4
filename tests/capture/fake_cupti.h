/* libcupti without a GPU: the calls that the tracer makes, and a way to make records. What a record
 * holds follows from its number, so that a reader can tell whether it is whole. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { FAKE_N_NAMES = 8 };
/* Correlation ids are thread << 24 | number, numbers from 1. */
static inline uint64_t fake_duration_ns(uint32_t correlation)
{
	return 1000 + correlation % 977;
}
static inline int32_t fake_grid(uint32_t correlation)
{
	return (int32_t)(1 + correlation % 101);
}
static inline uint32_t fake_stream(uint32_t correlation)
{
	return 7 + correlation % 3;
}
static inline uint64_t fake_bytes(uint32_t correlation)
{
	return UINT64_C(4096) * (1 + correlation % 13);
}

struct fake_stats {
	uint64_t n_records, n_callbacks, sum_ns, max_ns;
	uint64_t p99_ns;          /* of request and complete, as the caller of them sees it */
	uint64_t n_early_flushes; /* while cuInit ran: CUPTI may hang there */
};
/* One launch of this thread: external id, call, kernel; now and then a copy, an event and a wait.
 */
void fake_cupti_launch(uint32_t correlation);
/* This thread's buffer goes back. */
void fake_cupti_end_thread(void);
void fake_cupti_stats(struct fake_stats *out);
/* A record of a kind, to see what becomes of it. */
void fake_cupti_put(const void *record, size_t n);
/* The driver tells CUPTI of a call of this thread. */
void fake_cupti_driver_call(uint32_t cbid);
int fake_cuda_is_up(void); /* has cuInit ended? */
