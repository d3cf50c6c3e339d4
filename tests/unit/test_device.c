/* Device and software profiles: defaults, completeness, every shipped file. */
#include "config_fixture.h"
#include "core/machine/device.h"
#include "core/machine/software.h"
#include "core/profile/paths.h"
#include "runner.h"

static int load(const char *id, struct sc_device *device)
{
	memset(&err, 0, sizeof(err));
	return sc_device_load(id, &arena, device, &err);
}

FIXTURE(set_up, tear_down)

TEST(a_file_goes_over_its_defaults)
{
	struct sc_device device;

	ck_assert_int_eq(load("test-gpu", &device), 0);
	ck_assert_str_eq(device.id, "test-gpu");
	ck_assert_str_eq(device.name, "test-gpu");
	ck_assert_str_eq(device.arch, "test");
	ck_assert_int_eq(device.sm_count, 100);
	ck_assert_double_eq(device.gemm.k_half, 77);
	ck_assert_double_eq(device.gemm.k_half_batched, 123);
	ck_assert_int_eq(device.nvlink_links, 0);
	ck_assert_double_eq(device.peak_tflops[SC_FP16], 300);
	ck_assert_double_eq(device.peak_tflops[SC_TF32], 150);
	ck_assert_double_eq(device.peak_tflops[SC_FP8], 0);
}

TEST(unknown_ids_name_the_nearest)
{
	struct sc_device device;

	ck_assert_int_eq(load("test-gpv", &device), -SC_EVALUE);
	ck_assert_str_eq(err.text, "unknown GPU \"test-gpv\"; did you mean \"test-gpu\"?");
	ck_assert_int_eq(load("arch-test", &device), -SC_EVALUE);
	ck_assert_int_eq(load("../devices/test-gpu", &device), -SC_EVALUE);
	ck_assert_int_eq(load("", &device), -SC_EVALUE);
	ck_assert_ptr_nonnull(strstr(err.text, "unknown GPU \"\""));
}

static const struct {
	const char *text, *message;
} bad_files[] = {
	{"id: bad\n", "devices/bad.yaml:1:1: error: missing key \"schema\"; begin the file with "
		      "`schema: stepcast/1`"},
	{"schema: stepcast/2\n",
	 "devices/bad.yaml:1:9: error: schema: this program reads stepcast/1, not \"stepcast/2\""},
	{"schema: stepcast/1\nsm_cuont: 3\n",
	 "devices/bad.yaml:2:1: error: unknown key \"sm_cuont\"; did you mean \"sm_count\"?"},
	{"schema: stepcast/1\ngemm: {eff_simt: 1.3}\n",
	 "devices/bad.yaml:2:18: error: gemm.eff_simt: 1.3 is out of range; expected 0.001 to 1"},
	{"schema: stepcast/1\nsm_count: 0\n",
	 "devices/bad.yaml:2:11: error: sm_count: 0 is out of range; expected 1 to 4096"},
	{"schema: stepcast/1\n",
	 "devices/bad.yaml: error: missing keys \"sm_count\", \"boost_mhz\", \"peak_tflops.fp32\", "
	 "\"hbm_gib\", \"hbm_gbps\", \"l2_mib\", \"pcie_gbps\", \"copy_engines\" and 35 more; give them "
	 "here or in the file of defaults"},
	{"schema: stepcast/1\ndefaults: devices/bad.yaml\n",
	 "devices/bad.yaml:2:11: error: defaults: expected the name of one file, at most 8 deep"},
	{"schema: stepcast/1\ndefaults: devices/test-gpu.yaml\ngemm: {eff_max: 2}\n",
	 "devices/bad.yaml:3:17: error: gemm.eff_max: 2 is out of range; expected 0.001 to 1"},
	{"schema: stepcast/1\ndefaults: devices/test-gpu.yaml\nid: bad\n"
	 "gemm_curves: [{dtype: fp16, n: 8, k: 8, m: [1, 2, 2], factor: [1, 1, 1]}]\n",
	 "error: devices/bad.yaml: gemm_curves: number 1 (n 8, k 8) needs as many factors as m, and m "
	 "that rises"},
	{"schema: stepcast/1\ndefaults: devices/test-gpu.yaml\nid: bad\n"
	 "gemm_curves: [{dtype: fp16, n: 8, k: 8, m: [1, 2], factor: [1]}]\n",
	 "error: devices/bad.yaml: gemm_curves: number 1 (n 8, k 8) needs as many factors as m, and m "
	 "that rises"},
	{"schema: stepcast/1\ndefaults: devices/test-gpu.yaml\nid: bad\n"
	 "gemm_curves: [{dtype: fp12, n: 8, k: 8, m: [1], factor: [1]}]\n",
	 "devices/bad.yaml:4:23: error: gemm_curves[0].dtype: unknown value \"fp12\"; did you mean "
	 "\"fp32\"? Known: fp32, tf32, fp16, bf16, fp8, fp4"},
	{"schema: stepcast/1\ndefaults: devices/test-gpu.yaml\n",
	 "devices/bad.yaml: error: its id is \"test-gpu\"; it must be the file's name"},
};

LOOP_TEST(bad_files_are_told, N_OF(bad_files))
{
	struct sc_device device = {.sm_count = 12345};

	write_file("devices/bad.yaml", bad_files[_i].text);
	ck_assert_int_ne(load("bad", &device), 0);
	ck_assert_str_eq(message(), bad_files[_i].message);
	ck_assert_int_eq(device.sm_count, 12345);
}

TEST(a_missing_coefficient_is_told)
{
	struct sc_device device;

	write_file("devices/arch-less.yaml", "schema: stepcast/1\narch: x\nvendor: y\n");
	write_file(
		"devices/less.yaml",
		"schema: stepcast/1\ndefaults: devices/arch-less.yaml\nsm_count: 1\nboost_mhz: 1\n"
		"peak_tflops: {fp32: 1}\nhbm_gib: 1\nhbm_gbps: 1\nl2_mib: 1\npcie_gbps: 1\n"
		"copy_engines: 1\ntdp_w: 1\ngemm: {eff_max: 1}\n");
	ck_assert_int_ne(load("less", &device), 0);
	ck_assert_str_eq(
		message(),
		"devices/less.yaml: error: missing keys \"gemm.eff_simt\", \"gemm.tile_half\", "
		"\"gemm.k_half\", \"gemm.k_half_batched\", \"gemm.wave_frac\", \"gemm.hbm_eff\", "
		"\"gemm.fixed_us\", \"gemm.misaligned_eff\" and 25 more; give them here or in "
		"the file of defaults");
}

TEST(every_shipped_device_loads)
{
	const char *const *ids;
	size_t n = sc_config_ids("devices", &arena, &ids), n_loaded = 0;

	for (size_t i = 0; i < n; i++) {
		struct sc_device device;

		if (strncmp(ids[i], "arch-", 5) == 0)
			continue;
		ck_assert_msg(load(ids[i], &device) == 0, "%s", message());
		ck_assert_str_eq(device.id, ids[i]);
		ck_assert(device.peak_tflops[SC_FP32] > 0);
		n_loaded++;
	}
	ck_assert_uint_gt(n_loaded, 30);
}

TEST(every_shipped_software_loads)
{
	const char *const *ids;
	size_t n = sc_config_ids("software", &arena, &ids);

	ck_assert_uint_gt(n, 3);
	for (size_t i = 0; i < n; i++) {
		struct sc_software software;

		ck_assert_msg(sc_software_load(ids[i], &arena, &software, &err) == 0, "%s",
			      message());
		ck_assert_str_eq(software.id, ids[i]);
	}
}

TEST(software_is_checked_like_devices)
{
	struct sc_software software;

	ck_assert_int_ne(sc_software_load("megatron-ml", &arena, &software, &err), 0);
	ck_assert_str_eq(err.text,
			 "unknown software \"megatron-ml\"; did you mean \"megatron-lm\"?");
	memset(&err, 0, sizeof(err));
	write_file("software/thin.yaml", "schema: stepcast/1\ngrad_sync: overlap\n");
	ck_assert_int_ne(sc_software_load("thin", &arena, &software, &err), 0);
	ck_assert_str_eq(
		message(),
		"software/thin.yaml: error: missing keys \"bucket_mib\", \"gathers_per_layer\", "
		"\"host_op_us\", \"host_layer_us\", \"host_micro_batch_us\", \"host_step_us\", "
		"\"comm_host_us\", \"reserve_gib\"; give them here or in the file of defaults");
	memset(&err, 0, sizeof(err));
	write_file("software/other.yaml",
		   "schema: stepcast/1\ndefaults: software/default.yaml\nid: another\n");
	ck_assert_int_ne(sc_software_load("other", &arena, &software, &err), 0);
	ck_assert_str_eq(err.text, "its id is \"another\"; it must be the "
				   "file's name");
}

TEST(sizes_of_formats)
{
	ck_assert_double_eq(sc_dtype_bytes(SC_FP32), 4);
	ck_assert_double_eq(sc_dtype_bytes(SC_TF32), 4);
	ck_assert_double_eq(sc_dtype_bytes(SC_FP16), 2);
	ck_assert_double_eq(sc_dtype_bytes(SC_BF16), 2);
	ck_assert_double_eq(sc_dtype_bytes(SC_FP8), 1);
}

/* As drivers write them. */
static const struct {
	const char *gpu, *id;
} NAMES[] = {
	{"NVIDIA H800", "h800-sxm-80gb"},
	{"NVIDIA H100 80GB HBM3", "h100-sxm-80gb"},
	{"NVIDIA H100 PCIe", "h100-pcie-80gb"},
	{"Tesla V100-SXM2-16GB", "v100-sxm-16gb"},
	{"NVIDIA A100-PG509-200", "a100-sxm-80gb"},
	{"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
	{"AMD Instinct MI300X", "mi300x"},
	{"AMD Instinct MI250X", "mi250x-gcd"},
	{"AMD Instinct MI250", "mi250-gcd"},
	{"NVIDIA L4", "l4"},
	{"NVIDIA L40S", "l40s"},
	{"NVIDIA GeForce GTX 480", NULL},
	{"", NULL},
};

LOOP_TEST(gpus_as_traces_name_them, N_OF(NAMES))
{
	const char *id = sc_device_named(NAMES[_i].gpu, &arena);

	if (NAMES[_i].id)
		ck_assert_pstr_eq(id, NAMES[_i].id);
	else
		ck_assert_ptr_null(id);
}
