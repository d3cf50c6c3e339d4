/* Demands on one GPU of activities that run at once. Each becomes a graph cost; the engine gives
 * SMs by space, shares the rest by max-min fairness, and so finds what they lose by each other.
 * Beside SMs, memory bandwidth and links (op models, collective model) they share the path to
 * memory: crossbar and caches. Its loads: the device's `interference`, SC_RES_L2 of a cost. */
#pragma once

#include "core/graph/cost.h"
#include "core/machine/device.h"
#include "models/collective/collective.h"
#include "models/op_model.h"

/* Sets the load of the path by an op model's cost: a kernel loads it by its SMs. */
static inline void sc_interfere_load_kernel(const struct sc_device *device, struct sc_cost *cost)
{
	cost->demand[SC_RES_L2] = device->interference.path_compute * cost->demand[SC_RES_SM];
}

/* The cost of a kernel on the first `sms` of the device's SMs (0 = all), waves counted anew;
 * `given_us` is its measured time alone on all of them, or 0. */
void sc_interfere_kernel(const struct sc_device *device, const struct sc_op *op, double sms,
			 double given_us, struct sc_cost *out);

/* The share of the first piece's time that a later piece of a product takes: the cache may still
 * hold the weights that both read. */
double sc_interfere_next_piece_factor(const struct sc_device *device, const struct sc_op *piece);
/* The slowdown of a product's math and traffic in one kernel whose tiles wait for the rows of each
 * of `n_ranks`, or send them, in their order: weights that the cache does not hold are read anew
 * for each. It is at least 1. */
double sc_interfere_fused_factor(const struct sc_device *device, const struct sc_op *gemm,
				 double n_ranks);

/* A collective, as each rank sees it. */
struct sc_transfer {
	const struct sc_device *device;
	const struct sc_fabric *fabric;
	struct sc_collective_shape shape;
	int n_ranks;
	int n_nodes;            /* 0 = 1; more: on SMs alone, for copy engines reach one node */
	int max_ranks_per_node; /* 0: spread evenly */
	/* A transfer of one rank is a copy on one GPU: local_us alone, by so many blocks. */
	double local_us, local_blocks;
	double channels; /* as NCCL and RCCL are told: an SM each; 0 = what the library takes */
	/* The software adds call_us to a call, and reaches eff of the rate (0 = all of it). */
	double call_us, eff;
};
/* The cost of a collective on SMs: on as many as it takes at most (`sms` 0) or fewer; with fewer
 * than feed its links or NICs its rate falls with them. */
void sc_interfere_collective(const struct sc_transfer *transfer, double sms, double given_us,
			     struct sc_cost *out);
/* Gives a collective's cost so many SMs; `sms` 0: the fewest that do not slow it. */
void sc_interfere_keep_sms(const struct sc_transfer *transfer, double sms, struct sc_cost *cost);
/* Gives a collective's cost `kept_sms` SMs of its own beside a kernel. */
void sc_interfere_relieve(const struct sc_device *device, double kept_sms, double channels,
			  struct sc_cost *comm);
/* Returns NULL where copy engines alone can do it; else why not. */
const char *sc_interfere_copy_unfit(const struct sc_transfer *transfer);
/* A kernel and a collective that are known only from a recording. */
struct sc_interfere_seen {
	double alone_us;            /* of the kernel, or of the collective if it is asked for */
	double beside_frac;         /* of its time with the other: beside it */
	double blocks, comm_blocks; /* 0 = not known */
	double comm_load; /* share of the port's rate that the collective moves: < 1 over NICs */
	double comm_us;   /* of the collective alone, where the two are a pair; else 0 */
	bool computes;    /* the kernel: products, attention; else it moves bytes */
	bool sums;        /* the collective: all-reduce, reduce-scatter; else it only moves */
};
/* The share of its port's rate that a collective of nccl-tests' bytes moves in its time; a copy on
 * one GPU moves all of them. */
double sc_interfere_port_share(const struct sc_device *device, double bytes, double n_ranks,
			       double comm_us);
/* Makes costs of 1 us, which serve for their demands alone. */
void sc_interfere_seen_kernel(const struct sc_device *device, const struct sc_interfere_seen *seen,
			      struct sc_cost *out);
void sc_interfere_seen_collective(const struct sc_device *device,
				  const struct sc_interfere_seen *seen, struct sc_cost *out);
/* Slowdown of each while both run, the collective with its SMs first: the engine's law for two. */
struct sc_slowdowns {
	double kernel, comm;
};
struct sc_slowdowns sc_interfere_together(const struct sc_cost *kernel, const struct sc_cost *comm);
/* The kernel's time beside the collective; the kernel also takes longer to start and to end. */
double sc_interfere_seen_kernel_us(const struct sc_device *device,
				   const struct sc_interfere_seen *seen);
/* Solves the same for the time alone of a kernel that takes time_us. */
double sc_interfere_seen_alone_us(const struct sc_device *device,
				  const struct sc_interfere_seen *seen, double time_us);
/* The kernel's time if that share of the SMs were kept for collectives all the time. */
double sc_interfere_seen_reserved_us(const struct sc_device *device,
				     const struct sc_interfere_seen *seen, double sm_share);
/* The kernel's time if the collective were on copy engines. */
double sc_interfere_seen_copied_us(const struct sc_device *device,
				   const struct sc_interfere_seen *seen);
/* The time of a pair from the start of both to the end of the last. */
double sc_interfere_seen_pair_us(const struct sc_device *device,
				 const struct sc_interfere_seen *seen);
double sc_interfere_seen_collective_us(const struct sc_device *device,
				       const struct sc_interfere_seen *seen);
/* The SMs that a transfer takes at most. */
double sc_transfer_sms(const struct sc_transfer *transfer);
/* The cost on copy engines of one of `n_pieces` equal parts of what a rank receives from all its
 * peers; the issue of its `n_copies` copies is its latency. It takes no SMs. */
void sc_interfere_copy(const struct sc_transfer *transfer, double n_pieces, double n_copies,
		       struct sc_cost *out);
/* Turns `cost`, an all-reduce inside a kernel by copies, into one through the adders of a switch
 * (NVLS) where it has them. */
void sc_interfere_adders(const struct sc_transfer *transfer, struct sc_cost *cost);
/* The cost of summing what n_ranks - 1 peers have sent, after copies: a memory-bound kernel. It is
 * zero for collectives that only move data. */
void sc_interfere_reduce(const struct sc_transfer *transfer, struct sc_cost *out);
