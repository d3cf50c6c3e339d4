/* A ledger of a placement: the cost of each rank so far, and the memory of each tier. Ranks of a
 * pool share host memory and SSD: a pool is a host, but for TorchRec's planner each rank alone,
 * because it gives each its part. */
#pragma once

#include <string.h>

#include "base/arena.h"
#include "study/shard/shard.h"

struct sc_ledger {
	uint32_t n_ranks, per_pool;
	double *cost, *hbm;       /* of each rank */
	double *host, *ssd;       /* of each pool */
	const double *hbm_cap;    /* of each rank; NULL: any */
	double host_cap, ssd_cap; /* of each pool */
};

static inline uint32_t sc_ledger_n_pools(const struct sc_ledger *l)
{
	return (l->n_ranks + l->per_pool - 1) / l->per_pool;
}

/* Allocates the sums of a ledger whose other members are set; they are zero. */
static inline void sc_ledger_init(struct sc_ledger *l, struct sc_arena *memory)
{
	const size_t n_pools = sc_ledger_n_pools(l);

	l->cost = sc_arena_calloc(memory, 2 * (l->n_ranks + n_pools), sizeof(*l->cost));
	l->hbm = l->cost + l->n_ranks;
	l->host = l->hbm + l->n_ranks;
	l->ssd = l->host + n_pools;
}

static inline void sc_ledger_clear(struct sc_ledger *l)
{
	memset(l->cost, 0, 2 * ((size_t)l->n_ranks + sc_ledger_n_pools(l)) * sizeof(*l->cost));
}

/* Copies the sums of n ranks, which are whole pools. */
static inline void sc_ledger_copy(struct sc_ledger *to, const struct sc_ledger *from,
				  uint32_t first, uint32_t n)
{
	const uint32_t pool = first / from->per_pool;
	const size_t pools = (n + from->per_pool - 1) / from->per_pool;

	memcpy(to->cost + first, from->cost + first, n * sizeof(double));
	memcpy(to->hbm + first, from->hbm + first, n * sizeof(double));
	memcpy(to->host + pool, from->host + pool, pools * sizeof(double));
	memcpy(to->ssd + pool, from->ssd + pool, pools * sizeof(double));
}

/* Adds a shard's bytes, or takes them away with sign -1. */
static inline void sc_ledger_add_bytes(struct sc_ledger *l, const struct sc_option_shard *shard,
				       uint32_t rank, double sign)
{
	l->hbm[rank] += sign * shard->hbm_bytes;
	if (shard->host_bytes > 0 ||
	    shard->ssd_bytes > 0) { /* few are, and a division takes long */
		l->host[rank / l->per_pool] += sign * shard->host_bytes;
		l->ssd[rank / l->per_pool] += sign * shard->ssd_bytes;
	}
}

static inline void sc_ledger_add(struct sc_ledger *l, const struct sc_option_shard *shard,
				 uint32_t rank)
{
	l->cost[rank] += shard->cost;
	sc_ledger_add_bytes(l, shard, rank, 1);
}

static inline bool sc_ledger_fits(const struct sc_ledger *l, const struct sc_option_shard *shard,
				  uint32_t rank)
{
	return !(l->hbm_cap && l->hbm[rank] + shard->hbm_bytes > l->hbm_cap[rank]) &&
	       (shard->host_bytes <= 0 ||
		l->host[rank / l->per_pool] + shard->host_bytes <= l->host_cap) &&
	       (shard->ssd_bytes <= 0 ||
		l->ssd[rank / l->per_pool] + shard->ssd_bytes <= l->ssd_cap);
}

/* The rank, or its pool, is over its memory. */
static inline bool sc_ledger_is_over(const struct sc_ledger *l, uint32_t rank)
{
	return (l->hbm_cap && l->hbm[rank] > l->hbm_cap[rank]) ||
	       l->host[rank / l->per_pool] > l->host_cap || l->ssd[rank / l->per_pool] > l->ssd_cap;
}

/* Some rank or pool is over its memory. */
static inline bool sc_ledger_has_over(const struct sc_ledger *l)
{
	const size_t n_pools = sc_ledger_n_pools(l);
	bool is_over = false;

	for (uint32_t r = 0; l->hbm_cap && r < l->n_ranks; r++)
		is_over |= l->hbm[r] > l->hbm_cap[r];
	for (size_t i = 0; i < n_pools; i++)
		is_over |= l->host[i] > l->host_cap || l->ssd[i] > l->ssd_cap;
	return is_over;
}

/* The cost of the busiest rank, the first of those alike. */
static inline double sc_ledger_max(const struct sc_ledger *l, uint32_t *rank)
{
	uint32_t found = 0;

	for (uint32_t r = 1; r < l->n_ranks; r++)
		found = l->cost[r] > l->cost[found] ? r : found;
	if (rank)
		*rank = found;
	return l->cost[found];
}
