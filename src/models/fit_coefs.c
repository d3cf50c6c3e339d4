/* Which coefficients are fitted, and within which bounds (narrower than what a file may hold: these
 * also keep the search where the formulas mean something). A new coefficient is one line here. */
#include <stddef.h>

#include "models/fit_priv.h"

#define COEF(section, member, lo, hi)                                                  \
	{                                                                              \
		.name = #member, .offset = offsetof(struct sc_device, section.member), \
		.lower = lo, .upper = hi                                               \
	}
/* Of two that the rows do not tell apart, this one stays as it was. */
#define MINOR(section, member, lo, hi)                                                 \
	{                                                                              \
		.name = #member, .offset = offsetof(struct sc_device, section.member), \
		.lower = lo, .upper = hi, .minor = true                                \
	}
/* Not in any table: stays as it was. */
#define HELD(section, member)                                                         \
	{                                                                             \
		.name = #member, .offset = offsetof(struct sc_device, section.member) \
	}
/* Of a fabric's blocks; several machines start where no machine is: `from`. */
#define FABRIC(type, member, lo, hi, from)                                                         \
	{                                                                                          \
		.name = #member, .offset = offsetof(struct sc_fabric_##type, member), .lower = lo, \
		.upper = hi, .shared = from                                                        \
	}

static const struct sc_fit_coef_row GEMM[] = {
	COEF(gemm, eff_max, 0.05, 1),
	COEF(gemm, eff_simt, 0.05, 4),
	MINOR(gemm, tile_half, 0.5, 1e3),
	MINOR(gemm, k_half, 0.5, 1e4),
	MINOR(gemm, k_half_batched, 0.5, 1e4),
	MINOR(gemm, wave_frac, 1e-3, 1),
	COEF(gemm, hbm_eff, 0.05, 1),
	COEF(gemm, fixed_us, 0.1, 100),
	COEF(gemm, misaligned_eff, 0.02, 1),
	MINOR(gemm, split_us, 0.1, 100),
	MINOR(gemm, wave_loss, 1e-3, 1),
	MINOR(gemm, align_loss, 1e-3, 1),
	/* tables hold kernels timed alone, not under sustained load, and not on many GPUs at once */
	{.name = "power_eff_fp8",
	 .offset = offsetof(struct sc_device, gemm.power_eff_fp8),
	 .at = 1},
	{.name = "power_eff_fp4",
	 .offset = offsetof(struct sc_device, gemm.power_eff_fp4),
	 .at = 1},
	{.name = "clock_spread_frac",
	 .offset = offsetof(struct sc_device, gemm.clock_spread_frac),
	 .at = 1e-6},
	{.name = "power_eff", .offset = offsetof(struct sc_device, gemm.power_eff), .at = 1},
	{0},
};
/* Those at 0 in the profile are off, and stay so, but where several devices share them. The tile and
 * the blocks are the library's choice. */
#define SHARED(member, lo, hi, start)                                                            \
	{                                                                                        \
		.name = #member, .offset = offsetof(struct sc_device, simt.member), .lower = lo, \
		.upper = hi, .minor = true, .shared = start                                      \
	}
#define SHARED_AT(member, start)                                                    \
	{                                                                           \
		.name = #member, .offset = offsetof(struct sc_device, simt.member), \
		.shared = start                                                     \
	}
static const struct sc_fit_coef_row SIMT[] = {
	COEF(simt, eff_batched, 0.05, 4),
	SHARED(tile_half, 0.5, 1e3, 10),
	SHARED(k_half, 0.5, 1e4, 40),
	SHARED(k_half_batched, 0.5, 1e4, 7),
	SHARED(wave_frac, 1e-3, 1, 0.9),
	SHARED(far_loss, 1e-3, 10, 1.5),
	SHARED(droop_frac, 1e-3, 1, -1),
	SHARED(flop_pj, 1, 100, 22),
	SHARED_AT(far_k, 5000),
	SHARED_AT(droop_us, 2000),
	SHARED_AT(board_w, 15),
	SHARED_AT(batched_blocks, -1),
	{0},
};
static const struct sc_fit_coef_row ATTENTION[] = {
	COEF(attention, fwd_eff, 0.02, 1),      COEF(attention, bwd_eff, 0.02, 1),
	MINOR(attention, seq_half, 1, 1e5),     COEF(attention, fixed_us, 0.1, 500),
	MINOR(attention, bwd_seq_half, 1, 1e5), MINOR(attention, causal_half, 1, 1e5),
	MINOR(attention, head_half, 0.5, 1e3),  MINOR(attention, padded_eff, 0.1, 1),
	MINOR(attention, fwd_wide_eff, 0.1, 1), MINOR(attention, bwd_wide_eff, 0.1, 1),
	MINOR(attention, wave_frac, 1e-3, 1),   {0},
};
static const struct sc_fit_coef_row ROWWISE[] = {
	COEF(rowwise, hbm_eff, 0.05, 1),
	MINOR(rowwise, half_bytes, 1e3, 1e9),
	COEF(rowwise, fixed_us, 0.1, 500),
	MINOR(rowwise, sm_bytes_clk, 1, 100),
	{0},
};
static const struct sc_fit_coef_row EMBEDDING[] = {
	COEF(embedding, hbm_eff, 0.05, 1),
	COEF(embedding, update_eff, 0.05, 1),
	MINOR(embedding, l2_ratio, 0.5, 20),
	MINOR(embedding, lookup_cycles, 0.1, 1e3),
	COEF(embedding, row_cycles, 1, 1e5),
	MINOR(embedding, run_cycles, 0.1, 1e3),
	MINOR(embedding, run_max, 1e2, 1e7),
	MINOR(embedding, sort_bytes, 1, 1e4),
	MINOR(embedding, sort_us, 0.1, 1e3),
	COEF(embedding, fixed_us, 0.1, 500),
	/* tables hold no rows of the host's memory: these stay */
	{.name = "uvm_eff", .offset = offsetof(struct sc_device, embedding.uvm_eff)},
	{.name = "prefetch_eff", .offset = offsetof(struct sc_device, embedding.prefetch_eff)},
	{.name = "ssd_gbps", .offset = offsetof(struct sc_device, embedding.ssd_gbps)},
	{0},
};
static const struct sc_fit_coef_row HOST[] = {
	COEF(host, launch_us, 0.05, 1e3),
	{0},
};
/* Of recordings; the others are of pairs under policies, which no recording has. */
static const struct sc_fit_coef_row INTERFERENCE[] = {
	MINOR(interference, path_compute, 0.01, 1),
	COEF(interference, path_comm, 0.01, 1),
	COEF(interference, path_sum, 0.01, 4),
	COEF(interference, start_us, 0.01, 100),
	COEF(interference, start_sum_us, 0.01, 100),
	HELD(interference, path_copy),
	HELD(interference, wait_frac),
	HELD(interference, sm_granule),
	HELD(interference, copy_speed),
	HELD(interference, copy_us),
	HELD(interference, relief_sms),
	HELD(interference, relief_gain),
	HELD(interference, chunk_us),
	HELD(interference, push_us),
	HELD(interference, fused_loss),
	{0},
};
static const struct sc_fit_coef_row LINKS[] = {
	FABRIC(link, eff, 0.05, 1, 0.8),        FABRIC(link, copy_gbps, 200, 1e4, 500),
	FABRIC(link, nvls_eff, 0.05, 1.1, 0.5), FABRIC(link, latency_us, 0.05, 1e3, 5),
	FABRIC(link, simple_us, 0.05, 1e3, 8),  {0},
};
static const struct sc_fit_coef_row NETS[] = {
	FABRIC(net, eff, 0.02, 1, 0.89),        FABRIC(net, tree_eff, 0.02, 1, 0.8),
	FABRIC(net, p2p_eff, 0.02, 1.1, 0.8),   FABRIC(net, a2a_eff, 0.02, 1.1, 0.6),
	FABRIC(net, sharp_eff, 0.02, 1.1, 0.5), FABRIC(net, latency_us, 0.05, 1e3, 1),
	FABRIC(net, simple_us, 0.05, 1e3, 9),   {0},
};
/* Of every machine; those of one alone do not tell them. Starts: NCCL's own constants where it has them. */
static const struct sc_fit_coef_row RAMP[] = {
	FABRIC(ramp, ll_slope, 1, 100, 4),           FABRIC(ramp, net_slope, 1, 1e4, 100),
	FABRIC(ramp, ll_hop_frac, 0.05, 5, 1),       FABRIC(ramp, simple_base_us, 0.05, 100, 1.8),
	FABRIC(ramp, simple_hop_us, 0.05, 100, 2.8), FABRIC(ramp, ring_net_frac, 0.05, 1, 0.5),
	FABRIC(ramp, tree_link_eff, 0.05, 1, 0.92),  FABRIC(ramp, nvls_latency_us, 5, 100, 25),
	FABRIC(ramp, nvls_simple_us, 5, 100, 25),    FABRIC(ramp, p2p_latency_us, 0.5, 200, 10),
	FABRIC(ramp, p2p_simple_us, 0.01, 200, 1),   FABRIC(ramp, peer_us, 0.01, 50, 1),
	FABRIC(ramp, pcie_eff, 0.05, 1, 0.75),       {0},
};

/* The optimizer's model shares the coefficients of the row-wise one. */
const struct sc_fit_block sc_fit_blocks[SC_N_FIT_KINDS] = {
	[SC_FIT_GEMM] = {"gemm", GEMM},
	[SC_FIT_ATTENTION] = {"attention", ATTENTION},
	[SC_FIT_ROWWISE] = {"rowwise", ROWWISE},
	[SC_FIT_OPTIMIZER] = {"rowwise", ROWWISE},
	[SC_FIT_EMBEDDING] = {"embedding", EMBEDDING},
	[SC_FIT_HOST] = {"host", HOST},
	[SC_FIT_INTERFERENCE] = {"interference", INTERFERENCE},
};
const struct sc_fit_block sc_fit_simt = {"simt", SIMT};
const struct sc_fit_block sc_fit_links = {"links", LINKS};
const struct sc_fit_block sc_fit_nets = {"nets", NETS};
const struct sc_fit_block sc_fit_ramp = {"ramp", RAMP};

const char *const sc_fit_kind_names[] = {
	[SC_FIT_GEMM] = "gemm",
	[SC_FIT_ATTENTION] = "attention",
	[SC_FIT_ROWWISE] = "rowwise",
	[SC_FIT_OPTIMIZER] = "optimizer",
	[SC_FIT_EMBEDDING] = "embedding",
	[SC_FIT_HOST] = "host",
	[SC_FIT_COLLECTIVE] = "collective",
	[SC_FIT_INTERFERENCE] = "interference",
	[SC_N_FIT_KINDS] = NULL,
};

const char *sc_fit_status_name(enum sc_fit_status status)
{
	static const char *const names[] = {
		[SC_FIT_FITTED] = "fitted",
		[SC_FIT_AT_BOUND] = "at its bound",
		[SC_FIT_UNDETERMINED] = "not determined",
		[SC_FIT_OFF] = "off",
		[SC_FIT_KEPT] = "kept",
	};

	return names[status];
}
