/* Device files: the keys, and what a file may leave out. */
#include "core/machine/device.h"

#include <math.h>
#include <string.h>

#include "core/profile/profile_priv.h"

#define NUMBER(type_, struct_, member, lo, hi, absent_, ...) \
	SC_FIELD_IN(type_, struct_, member, lo, hi, __VA_ARGS__, .absent = absent_)
#define DOUBLE(struct_, member, lo, hi, text) \
	NUMBER(DOUBLE, struct_, member, lo, hi, SC_REQUIRED, text)
#define DOUBLE_OR(struct_, member, lo, hi, absent_, text) \
	NUMBER(DOUBLE, struct_, member, lo, hi, absent_, text)
#define INT(struct_, member, lo, hi, text) NUMBER(INT, struct_, member, lo, hi, SC_REQUIRED, text)
#define INT_OR(struct_, member, lo, hi, absent_, text) \
	NUMBER(INT, struct_, member, lo, hi, absent_, text)
#define FRAC(struct_, member, text) DOUBLE(struct_, member, 1e-3, 1, text)
#define US(struct_, member, text) DOUBLE(struct_, member, 0, 1e6, text)
#define SPREAD(struct_) DOUBLE(struct_, spread_frac, 0, 2, "residual spread, 1 sigma, relative")
#define STR(member, text) SC_FIELD(STR, sc_device, member, text)
#define SECTION(member, table, text) SC_FIELD_MAP(sc_device, member, table, text)
#define PEAK(key_, dtype, absent_)                                                    \
	{                                                                             \
		.key = key_, .type = SC_F_DOUBLE, .offset = (dtype) * sizeof(double), \
		.absent = absent_, .max = 1e6,                                        \
		.help = "dense peak, TFLOP/s; 0 = the device cannot"                  \
	}

static const struct sc_field PEAK_FIELDS[] = {
	PEAK("fp32", SC_FP32, SC_REQUIRED),
	PEAK("tf32", SC_TF32, 0),
	PEAK("fp16", SC_FP16, 0),
	PEAK("bf16", SC_BF16, 0),
	PEAK("fp8", SC_FP8, 0),
	PEAK("fp4", SC_FP4, 0),
	{0},
};
#define GEMM_OR(member, hi, text) DOUBLE_OR(sc_gemm_coef, member, 0, hi, 0, text)
static const struct sc_field GEMM_FIELDS[] = {
	FRAC(sc_gemm_coef, eff_max, "share of tensor peak over a long k loop, first wave"),
	FRAC(sc_gemm_coef, eff_simt, "share of fp32 peak, of the units that fp32 runs on"),
	DOUBLE(sc_gemm_coef, tile_half, 0, 1e6, "tile edge whose loads cost as much as its math"),
	DOUBLE(sc_gemm_coef, k_half, 0, 1e6, "k whose start and end cost as much as its loop"),
	DOUBLE(sc_gemm_coef, k_half_batched, 0, 1e6, "the same for batched GEMMs"),
	DOUBLE(sc_gemm_coef, wave_frac, 0, 1, "share of wave quantization that is felt"),
	FRAC(sc_gemm_coef, hbm_eff, "share of peak HBM bandwidth of operand streams"),
	US(sc_gemm_coef, fixed_us, "kernel start and drain, us"),
	GEMM_OR(run_fixed_us, 1e6,
		"the same in a run, where another kernel was before it, us; less: fixed_us"),
	FRAC(sc_gemm_coef, misaligned_eff, "factor where rows are not multiples of 16 bytes"),
	GEMM_OR(align_loss, 1, "time added by rows of 16 n bytes, not 128 n"),
	GEMM_OR(eff_tf32, 2, "share of tf32's peak over that of bf16's; 0 = 1"),
	GEMM_OR(eff_fp8, 2, "share of fp8's peak over that of bf16's; 0 = 1"),
	GEMM_OR(eff_fp4, 2, "share of fp4's peak over that of bf16's; 0 = as fp8"),
	DOUBLE(sc_gemm_coef, power_eff, 1e-3, 2,
	       "rate kept in runs, beside what the power limit takes of products"),
	GEMM_OR(power_eff_fp8, 2, "the same in fp8; 0 = as power_eff"),
	GEMM_OR(power_eff_fp4, 2, "the same in fp4; 0 = as power_eff_fp8"),
	GEMM_OR(clock_spread_frac, 1, "of that clock from GPU to GPU, 1 sigma"),
	GEMM_OR(split_us, 1e6, "added by a split of k, us"),
	GEMM_OR(l2_ratio, 100,
		"rate of the last cache over memory's, in repeats of a burst; 0 = 1"),
	GEMM_OR(block_scale_loss, 10,
		"time added where both operands have scales of blocks along k"),
	GEMM_OR(odd_rows_loss, 10,
		"time added in fp8 where rows are no multiple of 4: their scales are unaligned"),
	GEMM_OR(reread_frac, 1,
		"share of kernels in fp8 and fp4 whose tiles go along m and read the input again"),
	GEMM_OR(tensor_pj, 100,
		"energy of a FLOP of 16 bits on tensor cores, pJ, others by their bits; 0 = no power limit"),
	SPREAD(sc_gemm_coef),
	GEMM_OR(curve_spread_frac, 2, "the same of products with a curve; 0 = as it"),
	{0},
};
#define MAX_SIZE 1e12
static const struct sc_field GEMM_CURVE_FIELDS[] = {
	SC_FIELD_OF(ENUM, sc_gemm_curve, dtype, sc_dtype_names, "of the operands",
		    .required = true),
	SC_FIELD_IN(DOUBLE, sc_gemm_curve, n, 1, MAX_SIZE, "columns of the output",
		    .required = true),
	SC_FIELD_IN(DOUBLE, sc_gemm_curve, k, 1, MAX_SIZE, "columns of the input",
		    .required = true),
	SC_FIELD_IN(DOUBLES, sc_gemm_curve, m, 1, MAX_SIZE, "rows of the input, rising",
		    .required = true),
	SC_FIELD_IN(DOUBLES, sc_gemm_curve, factor, 1e-3, 1e3,
		    "measured time over the formula's, for each m", .required = true),
	{0},
};
#define SIMT(member, hi, text) DOUBLE_OR(sc_simt_coef, member, 0, hi, 0, text)
static const struct sc_field SIMT_FIELDS[] = {
	SIMT(eff_batched, 4, "batched, share of fp32 peak; 0 = gemm.eff_simt"),
	SIMT(tile_half, 1e6, "tile edge whose loads cost as much as its math"),
	SIMT(k_half, 1e6, "k whose start and end cost as much as its loop"),
	SIMT(k_half_batched, 1e6, "the same for batched GEMMs"),
	SIMT(wave_frac, 1, "share of wave quantization that is felt"),
	SIMT(batched_tile_m, 4096,
	     "rows of the tile of batched GEMMs, which has 128 columns; 0 = chosen"),
	SIMT(batched_blocks, 32, "blocks an SM needs for its full rate"),
	SIMT(far_k, 1e9, "k around which rows are too far apart; 0 = none"),
	SIMT(far_loss, 100, "time added there, relative"),
	SIMT(droop_frac, 10, "time added by a falling clock, relative"),
	SIMT(droop_us, 1e6, "kernel time at which half of it is felt, us"),
	SIMT(flop_pj, 1e3, "energy of a FLOP at 16 nm, pJ; 0 = no power limit"),
	{0},
};
#define ATTENTION_OR(member, hi, text) DOUBLE_OR(sc_attention_coef, member, 0, hi, 0, text)
static const struct sc_field ATTENTION_FIELDS[] = {
	FRAC(sc_attention_coef, fwd_eff, "forward, share of tensor peak at long sequences"),
	FRAC(sc_attention_coef, bwd_eff, "backward, share of tensor peak at long sequences"),
	US(sc_attention_coef, fixed_us, "shortest kernel, us"),
	US(sc_attention_coef, fwd_tile_us, "start and end of a tile of 64 queries, us"),
	US(sc_attention_coef, bwd_tile_us, "the same of backward, us"),
	ATTENTION_OR(head_half, 1e6, "softmax of a score, in head columns at tensor peak"),
	ATTENTION_OR(fp8_eff, 2, "forward, factor of the share of peak in fp8; 0 = none"),
	ATTENTION_OR(fp8_wide_eff, 2, "the same of heads above 128; 0 = fp8_eff"),
	ATTENTION_OR(padded_eff, 1, "factor where the head is padded; 0 = none"),
	ATTENTION_OR(fwd_wide_eff, 1, "forward, heads above 128; 0 = none"),
	ATTENTION_OR(bwd_wide_eff, 1, "backward, heads above 128; 0 = none"),
	ATTENTION_OR(wave_frac, 1, "share of wave quantization that is felt"),
	ATTENTION_OR(decode_eff, 1,
		     "share of HBM bandwidth that reads a cache; 0 = rowwise.hbm_eff"),
	SPREAD(sc_attention_coef),
	{0},
};
static const struct sc_field ROWWISE_FIELDS[] = {
	FRAC(sc_rowwise_coef, hbm_eff, "share of peak HBM bandwidth at large size"),
	DOUBLE(sc_rowwise_coef, half_bytes, 0, 1e12, "bytes at which half of it is reached"),
	US(sc_rowwise_coef, fixed_us, "shortest kernel, us"),
	DOUBLE_OR(sc_rowwise_coef, sm_bytes_clk, 0, 1e3, 0,
		  "bytes that an SM moves a clock; 0 = no limit"),
	SPREAD(sc_rowwise_coef),
	{0},
};
static const struct sc_field EMBEDDING_FIELDS[] = {
	FRAC(sc_embedding_coef, hbm_eff, "share of peak HBM bandwidth of random rows"),
	FRAC(sc_embedding_coef, update_eff, "the same of rows read and written back"),
	DOUBLE(sc_embedding_coef, l2_ratio, 0.1, 100, "last cache's bandwidth over peak HBM's"),
	DOUBLE(sc_embedding_coef, lookup_cycles, 0, 1e6, "SM cycles for a row gathered"),
	DOUBLE(sc_embedding_coef, row_cycles, 0, 1e6, "SM cycles for a row updated"),
	DOUBLE(sc_embedding_coef, run_cycles, 0, 1e6, "for a lookup of the longest run of a row"),
	DOUBLE(sc_embedding_coef, run_max, 1, 1e9, "lookups at which a run is cut"),
	DOUBLE(sc_embedding_coef, sort_bytes, 0, 1e6, "HBM traffic to sort one index"),
	US(sc_embedding_coef, sort_us, "the sort's launches, us"),
	US(sc_embedding_coef, fixed_us, "shortest kernel, us"),
	DOUBLE_OR(sc_embedding_coef, load_cycles, 0, 1e5, 0,
		  "until memory answers a load; 0 = nothing waits"),
	SPREAD(sc_embedding_coef),
	{0},
};
static const struct sc_field HOST_FIELDS[] = {
	US(sc_host_coef, launch_us, "CPU time of one bare kernel launch, us"),
	DOUBLE_OR(sc_host_coef, slowdown, 0.1, 10, 1,
		  "CPU times over those of x86 servers; default 1"),
	SPREAD(sc_host_coef),
	{0},
};
static const struct sc_field BAND_FIELDS[] = {
	DOUBLE_OR(sc_band_coef, shortest_us, 0, 1e6, 0,
		  "kernel time below which models extrapolate, us"),
	DOUBLE_OR(sc_band_coef, longest_us, 0, 1e9, 0, "the same above; 0 = no limit"),
	{0},
};
#define INTERFERE(member, lo, hi, absent_, text) \
	DOUBLE_OR(sc_interference_coef, member, lo, hi, absent_, text)
/* Not given: nothing but SMs, memory bandwidth and links is shared. */
static const struct sc_field INTERFERENCE_FIELDS[] = {
	INTERFERE(path_compute, 0, 1, 0, "share of the path to memory that a kernel loads"),
	INTERFERE(path_comm, 0, 1, 0, "the same of a collective on SMs"),
	INTERFERE(path_copy, 0, 1, 0, "the same of copy engines"),
	INTERFERE(channel_gbps, 0, 1e4, 0,
		  "that an SM of a collective over NICs moves while kernels run; 0 = all it can"),
	INTERFERE(start_us, 0, 1e3, 0, "that a recorded kernel takes longer beside one that moves"),
	INTERFERE(start_sum_us, 0, 1e3, 0, "the same beside one that sums"),
	INTERFERE(wait_frac, 0, 1, 0, "of a kernel's time, until a later collective gets SMs"),
	INTERFERE(kept_relief, 0, 1, 0,
		  "by which path_comm is less, with SMs of the collective's own, relative"),
	INTERFERE(sm_granule, 1, 1024, 1, "SMs that are reserved at once"),
	INTERFERE(copy_speed, 0.01, 10, 1, "copy engines' rate on links over that of SMs"),
	INTERFERE(
		copy_us, 0, 1e6, 5,
		"to issue one copy and see its end; between pieces of a GEMM behind a gather, us"),
	INTERFERE(relief_gain, 0, 1, 0,
		  "of memory-bound kernels with sm_granule SMs less, relative"),
	INTERFERE(push_us, 0, 1e6, 30, "the same before a reduction, us"),
	INTERFERE(fused_loss, 0, 10, 0,
		  "how much slower a fused kernel's math is than the library's, relative"),
	{0},
};
const struct sc_field sc_device_fields[] = {
	SC_PROFILE_KEYS,
	STR(id, "the file's stem"),
	STR(name, "as its maker writes it"),
	STR(arch, "ampere, hopper, cdna3..."),
	STR(vendor, "nvidia, amd"),
	STR(rank_has, "of a board that software sees as several GPUs: the file of one"),
	INT(sc_device, sm_count, 1, 4096, "streaming multiprocessors or compute units"),
	INT_OR(sc_device, cuda_capability, 0, 999, 0, "80 = 8.0; 0 for AMD"),
	DOUBLE(sc_device, boost_mhz, 1, 1e5, "boost clock, MHz"),
	SECTION(peak_tflops, PEAK_FIELDS, "dense peaks"),
	SC_FIELD(BOOL, sc_device, mx_formats, "tensor cores scale blocks of 32 elements (OCP MX)"),
	DOUBLE(sc_device, hbm_gib, 0.1, 1e5, "memory, GiB"),
	DOUBLE(sc_device, hbm_gbps, 1, 1e6, "memory bandwidth, 1e9 bytes/s"),
	DOUBLE(sc_device, l2_mib, 0.01, 1e5, "last cache on the chip, MiB"),
	INT_OR(sc_device, nvlink_links, 0, 1024, 0, "NVLink or xGMI links; 0 = none"),
	DOUBLE_OR(sc_device, nvlink_link_gbps, 0, 1e5, 0, "one link, one direction, 1e9 bytes/s"),
	DOUBLE(sc_device, pcie_gbps, 0.1, 1e5, "slot, one direction, 1e9 bytes/s"),
	DOUBLE_OR(sc_device, host_link_gbps, 0, 1e5, 0,
		  "to a host on the module (NVLink-C2C), one direction, 1e9 bytes/s; 0 = the slot"),
	INT(sc_device, copy_engines, 0, 64, "DMA engines"),
	DOUBLE(sc_device, tdp_w, 1, 1e5, "power limit, W"),
	DOUBLE_OR(sc_device, process_nm, 0, 1e3, 0, "process of the chip, nm; 0 = not known"),
	INT_OR(sc_device, usual_gpus_per_node, 0, 1024, 0, "0 = not known"),
	INT_OR(sc_device, usual_nics_per_node, 0, 1024, 0, "0 = not known"),
	INT_OR(sc_device, usual_scale_up_gpus, 0, 4096, 0,
	       "one NVLink domain over hosts; 0 = a node"),
	DOUBLE_OR(sc_device, bridge_gbps, 0, 1e5, 0, "NVLink bridge, one direction, 1e9 bytes/s"),
	DOUBLE_OR(sc_device, usual_nic_gbit_s, 0, 1e5, 0, "one NIC, Gbit/s"),
	DOUBLE_OR(sc_device, usual_host_gbps, 0.1, 1e5, 50,
		  "bandwidth of the host memory for each GPU of a node, 1e9 bytes/s"),
	SECTION(gemm, GEMM_FIELDS, "models/gemm.c"),
	SECTION(simt, SIMT_FIELDS, "models/gemm.c, without tensor cores"),
	SECTION(attention, ATTENTION_FIELDS, "models/attention.c"),
	SECTION(rowwise, ROWWISE_FIELDS, "models/rowwise.c"),
	SECTION(embedding, EMBEDDING_FIELDS, "models/embedding_kernel.c"),
	SECTION(host, HOST_FIELDS, "launches"),
	SECTION(interference, INTERFERENCE_FIELDS, "models/interference.c"),
	SECTION(band, BAND_FIELDS, "how far the models are to be trusted"),
	SC_FIELD_LIST(sc_device, gemm_curves, GEMM_CURVE_FIELDS, sc_gemm_curve,
		      "products measured on this machine; stepcast fit --curves writes them"),
	STR(fitted, "blocks that were measured on this GPU"),
	{0},
};

static const struct sc_profile_kind device_kind = {
	.folder = "devices", .noun = "GPU", .hidden = "arch-", .fields = sc_device_fields};

static int check_curves(const struct sc_device *device, const char *id, struct sc_err *err)
{
	const struct sc_gemm_curve *c = device->gemm_curves.at;

	for (size_t i = 0; i < device->gemm_curves.n; i++, c++) {
		bool rises = c->m.n > 0 && c->m.n == c->factor.n;

		for (size_t j = 1; rises && j < c->m.n; j++)
			rises = c->m.at[j] > c->m.at[j - 1];
		if (!rises)
			return sc_err_set(err, SC_EVALUE,
					  "devices/%s.yaml: gemm_curves: number %zu (n %g, k %g) "
					  "needs as many factors as m, and m that rises",
					  id, i + 1, c->n, c->k);
	}
	return 0;
}

int sc_device_load(const char *id, struct sc_arena *arena, struct sc_device *out,
		   struct sc_err *err)
{
	struct sc_device device;
	int rc;

	memset(&device, 0, sizeof(device));
	rc = sc_profile_load(&device_kind, id, &device, arena, err);
	if (rc)
		return rc;
	if (!device.arch || !device.vendor)
		return sc_err_set(err, SC_EVALUE, "devices/%s.yaml: missing key \"%s\"", id,
				  device.arch ? "vendor" : "arch");
	rc = check_curves(&device, id, err);
	if (!device.name)
		device.name = device.id;
	if (rc == 0)
		*out = device;
	return rc;
}

#define ROUNDING 1e-9  /* of shares of SMs */
#define KERNEL_SMS 4.0 /* with which a step still ends */

double sc_device_whole_sms(const struct sc_device *device, double sms)
{
	const double granule = fmax(1, device->interference.sm_granule);

	return ceil(sms / granule - ROUNDING) * granule;
}

double sc_device_most_reserved(const struct sc_device *device)
{
	const double granule = fmax(1, device->interference.sm_granule);

	return fmax(0, floor(((double)device->sm_count - KERNEL_SMS) / granule) * granule);
}

void sc_device_print_peaks(const struct sc_device *device, struct sc_strbuf *out)
{
	const char *comma = "";

	for (const struct sc_name *name = sc_dtype_names; name->name; name++) {
		const double peak = device->peak_tflops[name->value];

		if (!(peak > 0))
			continue;
		sc_strbuf_printf(out, "%s%s %g", comma, name->name, peak);
		comma = ", ";
	}
}

bool sc_device_is_fitted(const struct sc_device *device, const char *block)
{
	/* Each op asks: calls for words of a few letters would take longer than they. */
	const char *word = device->fitted ? device->fitted : "";

	while (*word) {
		size_t n = 0;

		while (block[n] && word[n] == block[n])
			n++;
		if (!block[n] && (!word[n] || word[n] == ' '))
			return true;
		for (word += n; *word && *word != ' ';)
			word++;
		while (*word == ' ')
			word++;
	}
	return false;
}
