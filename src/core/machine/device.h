/* A GPU: datasheet numbers and the coefficients of the op models, from configs/devices/ID.yaml.
 * Rates are dense peaks; `_eff` coefficients are achieved / peak. Every number in the file has its
 * source beside it; none is in C. */
#pragma once

#include "base/fields.h"
#include "base/strbuf.h"
#include "core/graph/op.h"

/* Coefficients of the op models; each model's .c file holds the formula. `spread_frac` is the
 * model's residual spread (one sigma, relative), carried into the iteration's band. */
struct sc_gemm_coef {
	double eff_max;   /* share of tensor peak that a 256x128 tile reaches over a long k loop */
	double eff_simt;  /* the same for SIMT fp32 */
	double tile_half; /* tile edge whose operand loads cost as much as its math */
	double k_half;    /* k at which prologue and epilogue cost as much as the main loop */
	double k_half_batched; /* the same for batched GEMMs */
	double wave_frac;      /* share of the wave quantization that is felt */
	double hbm_eff;        /* share of peak HBM bandwidth that operand streams reach */
	double fixed_us;       /* kernel start and drain */
	double run_fixed_us;   /* the same behind another kernel; below fixed_us: fixed_us */
	double misaligned_eff; /* factor where a row of an operand is not a multiple of 16 bytes */
	double align_loss; /* time added where rows are multiples of 16 bytes only, not of 128 */
	double eff_tf32, eff_fp8,
		eff_fp4;  /* share of the format's peak over that of bf16; 0 = 1, 1, as fp8 */
	double power_eff; /* rate that tensor cores keep in runs, beside what the power limit takes
			     of their products */
	double power_eff_fp8;     /* the same in fp8; 0 = as power_eff */
	double power_eff_fp4;     /* the same in fp4; 0 = as power_eff_fp8 */
	double clock_spread_frac; /* of the sustained clock from GPU to GPU, one sigma, relative */
	double split_us;          /* added by a split of k */
	double l2_ratio; /* rate of the last cache over that of memory, where repeats of a burst
			    find operands in it; 0 = 1 */
	double block_scale_loss; /* time added where both operands have scales of blocks along k */
	double odd_rows_loss; /* time added in fp8 if rows are no multiple of 4: unaligned scales */
	double reread_frac;   /* fp8, fp4: share of kernels whose tiles along m reread the input */
	double tensor_pj; /* energy of a 16-bit FLOP, pJ, of others by bits; 0: no power limit */
	double spread_frac;
	double curve_spread_frac; /* of products that have a curve; 0 = as spread_frac */
};
/* Products of one weight matrix, as measured: their time over the formula's, by the rows of their
 * input. Of fp16 and bf16 one stands for both. */
struct sc_gemm_curve {
	int dtype;                   /* enum sc_dtype */
	double n, k;                 /* k -> n, forward */
	struct sc_doubles m, factor; /* m rises */
};
/* GEMMs without tensor cores; gemm.eff_simt is their share of fp32 peak. 0 leaves an effect out. */
struct sc_simt_coef {
	double eff_batched; /* share of fp32 peak of batched GEMMs; 0 = eff_simt */
	double tile_half, k_half, k_half_batched, wave_frac; /* as of tensor cores */
	double batched_tile_m; /* rows of the one tile that batched GEMMs use; 0 = chosen */
	double batched_blocks; /* blocks of a batched GEMM that an SM needs for its full rate */
	double far_k,
		far_loss; /* k, in elements, around which rows are too far apart; time added */
	double droop_frac,
		droop_us; /* time added by a falling clock; the kernel time of half of it */
	/* The power limit gives droop_frac where it was not measured: the energy of a FLOP in a
	 * process of 16 nm, pJ; what the card draws beside its FLOPs, W. */
	double flop_pj;
};
struct sc_attention_coef {
	double fwd_eff, bwd_eff; /* share of tensor peak at long sequences and wide heads */
	double fixed_us;
	double fwd_tile_us, bwd_tile_us; /* start and end of a tile of queries, on an SM */
	/* 0 leaves an effect out */
	double head_half; /* softmax of one score, in columns of the head at tensor peak */
	double fp8_eff,
		fp8_wide_eff; /* forward, factor of the share of peak in fp8; of heads above 128 */
	double padded_eff;    /* factor where the head is padded to a multiple of 32 */
	double fwd_wide_eff, bwd_wide_eff; /* factor of heads above 128 */
	double wave_frac;                  /* share of wave quantization that is felt */
	double decode_eff; /* share of peak HBM bandwidth that reads a cache; 0 = rowwise's */
	double spread_frac;
};
struct sc_rowwise_coef {
	double hbm_eff;      /* share of peak HBM bandwidth at large size */
	double half_bytes;   /* bytes at which the ramp reaches half of it */
	double fixed_us;     /* shortest kernel */
	double sm_bytes_clk; /* that the instructions of an SM move in a clock; 0 = no limit */
	double spread_frac;
};
struct sc_embedding_coef {
	double hbm_eff;       /* share of peak HBM bandwidth that reading random rows reaches */
	double update_eff;    /* the same of rows read and written back */
	double l2_ratio;      /* bandwidth of the last cache over peak HBM bandwidth */
	double lookup_cycles; /* of an SM, for a row or a gradient gathered */
	double row_cycles;    /* of an SM, for a row updated */
	double run_cycles, run_max; /* for a lookup of the longest run of a row; its most lookups */
	double sort_bytes;          /* HBM traffic to sort one index, at hbm_eff */
	double sort_us;             /* the launches of the sort, however short */
	double fixed_us;            /* shortest kernel */
	double load_cycles;         /* until memory answers a load; 0 = nothing is waited for */
	double spread_frac;
};
struct sc_host_coef {
	double launch_us; /* CPU time of one bare kernel launch, framework apart */
	double slowdown;  /* CPU times of frameworks over those of usual x86 servers; default 1 */
	double spread_frac;
};
/* The effect that what runs at once on one GPU has on each other (models/interference.h). */
struct sc_interference_coef {
	/* Shares of the path to memory (crossbar and caches) that a kernel, a collective on SMs and
	 * a copy engine's transfer load at full speed: above 1 together they slow each other. */
	double path_compute, path_comm, path_copy;
	/* One SM of a collective between nodes moves so much at most while kernels run: its copies
	 * wait for a memory with more in flight. 0: as much as alone. */
	double channel_gbps;
	/* The time by which a kernel of recordings takes longer, however short, beside a collective
	 * that moves or sums. */
	double start_us, start_sum_us;
	double wait_frac;   /* of a kernel's time, until a later collective as urgent gets SMs */
	double kept_relief; /* a collective with SMs of its own loads the path less by that share */
	double sm_granule;  /* SMs that are reserved at once */
	double copy_speed;  /* copy engines' rate over that of SMs on links */
	double copy_us;     /* to issue one copy and see its end; between the pieces of a decomposed
			       GEMM behind a gather */
	double relief_gain; /* memory-bound kernels gain, relative, with sm_granule SMs less: their
			       caches thrash less */
	double push_us;     /* the same before a reduction: each piece is pushed and signalled */
	double fused_loss;  /* how much slower a fused kernel's math is, over the library's */
};
/* How far the models are to be trusted on this device; 0 leaves an effect out. */
struct sc_band_coef {
	/* kernel times below and above which models extrapolate */
	double shortest_us, longest_us;
};
struct sc_device {
	const char *id, *name, *arch, *vendor;
	const char *rank_has; /* of a board that software sees as several GPUs: one's id, or NULL */
	int64_t sm_count, cuda_capability; /* capability 80 = 8.0; 0 for AMD */
	double boost_mhz;
	double peak_tflops[SC_N_DTYPES]; /* 0 = the device cannot */
	bool mx_formats;                 /* its tensor cores scale blocks of 32 elements (OCP MX) */
	double hbm_gib, hbm_gbps, l2_mib;
	int64_t nvlink_links;    /* or xGMI; 0 = none */
	double nvlink_link_gbps; /* one link, one direction */
	double pcie_gbps;        /* one direction, peak of the slot */
	double host_link_gbps;   /* to a host on one module (NVLink-C2C), one way; 0 = the slot */
	int64_t copy_engines;
	double tdp_w;
	double process_nm; /* of the chip, as its maker names it; 0 = not known */
	int64_t usual_gpus_per_node, usual_nics_per_node;
	int64_t usual_scale_up_gpus; /* of one NVLink domain over several hosts; 0 = a node */
	double bridge_gbps; /* of an NVLink bridge that cards in slots may have, one direction */
	double usual_nic_gbit_s; /* of one NIC */
	double usual_host_gbps;  /* bandwidth of the host memory, for each GPU */
	struct sc_gemm_coef gemm;
	struct sc_simt_coef simt;
	struct sc_attention_coef attention;
	struct sc_rowwise_coef rowwise;
	struct sc_embedding_coef embedding;
	struct sc_host_coef host;
	struct sc_interference_coef interference;
	struct sc_band_coef band;
	struct sc_structs gemm_curves; /* struct sc_gemm_curve; may be none */
	/* "gemm attention": blocks measured on this GPU (or a twin), not from others or a trend. */
	const char *fitted;
};

extern const struct sc_field sc_device_fields[];
/* Loads configs/devices/ID.yaml; the file's `defaults: devices/arch-ampere.yaml`, if any, is read
 * first. An unknown id names the nearest. Strings live in the arena. */
int sc_device_load(const char *id, struct sc_arena *arena, struct sc_device *out,
		   struct sc_err *err);
/* The id of the file that fits a GPU as traces name it ("NVIDIA H800", "Tesla V100-SXM2-16GB"): its
 * first word is one of the name's, and most others begin one; NULL: none. */
const char *sc_device_named(const char *gpu, struct sc_arena *arena);
/* SMs that are kept free of kernels: in whole granules, and at most so many. */
double sc_device_whole_sms(const struct sc_device *device, double sms);
double sc_device_most_reserved(const struct sc_device *device);
/* Are products of that type done by tensor cores? Cards whose half precision is slower than single
 * run it on the fp32 units. */
static inline bool sc_device_has_tensor(const struct sc_device *device, enum sc_dtype dtype)
{
	return dtype != SC_FP32 && device->peak_tflops[dtype] >= device->peak_tflops[SC_FP32];
}
/* Appends the formats that it multiplies and their peaks, as "fp32 19.5, bf16 312". */
void sc_device_print_peaks(const struct sc_device *device, struct sc_strbuf *out);
/* Was `block` measured on this device: is it a word of `fitted`? */
bool sc_device_is_fitted(const struct sc_device *device, const char *block);
/* The block that its products of that type are of: "gemm", or "simt" without tensor cores. */
static inline const char *sc_device_math_block(const struct sc_device *device, enum sc_dtype dtype)
{
	return sc_device_has_tensor(device, dtype) ? "gemm" : "simt";
}

/* GPUs of the usual NVLink domain, over nodes of so many; a node where it has no whole ones. */
static inline int64_t sc_device_usual_domain(const struct sc_device *device, int64_t per_node)
{
	const int64_t domain = device->usual_scale_up_gpus;

	return domain > per_node && domain % per_node == 0 ? domain : per_node;
}
