/* Times of training.offload: how fast states that it keeps off the GPUs come and go, and the
 * optimizer's step on the CPU (ZeRO-Offload, Ren et al., ATC 2021; ZeRO-Infinity, Rajbhandari et
 * al., SC 2021). */
#pragma once

#include "core/config/config.h"
#include "models/collective/collective.h"

/* The rates of one GPU while all of its node copy, 1e9 bytes/s, one direction; SC_TIER_NONE: 0. */
struct sc_host_rates {
	double in[SC_TIER_NVME + 1], out[SC_TIER_NVME + 1]; /* by enum sc_offload_tier */
	double step;                                        /* of the optimizer on the CPU */
};
void sc_host_rates(const struct sc_request *request, const struct sc_fabric *fabric,
		   struct sc_host_rates *out);

/* Something comes and goes with the passes. */
static inline bool sc_offload_moves(const struct sc_offload *off)
{
	return off->weights > SC_TIER_NONE || off->activations > SC_TIER_NONE ||
	       off->gradients > SC_TIER_NONE;
}

/* The share of the optimizer's states that leaves the GPU, 0..1. */
static inline double sc_offload_states_frac(const struct sc_offload *off)
{
	return off->optimizer > SC_TIER_NONE ? off->optimizer_fraction : 0;
}

/* The share of a stage's layers whose activations leave the GPU, 0..1. */
double sc_offload_layers_frac(const struct sc_offload *off, double layers);

/* The time of the host at the end of a step that updates so many parameters of a rank, us: its
 * share of the optimizer (`step_bytes`: read and written per parameter), and the way of weights
 * that the GPU updated to where they are kept. */
double sc_host_step_us(const struct sc_request *request, const struct sc_fabric *fabric,
		       double updated, double step_bytes);
