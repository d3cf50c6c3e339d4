/* Times computation and communication alone and together on one GPU, as a table for stepcast: see
 * scripts/measure-c3. What stands for communication is a copy, by a kernel with as many CTAs as a
 * collective would have, or by a copy engine.
 * Both sides begin together: they wait for one event, behind a kernel that spins until all is enqueued.
 * Which side gets the SMs first is settled by letting the other begin a few microseconds later. Times are
 * those of CUDA events, the median of REPEATS; together, from the first start to the last end. */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { REPEATS = 21, WARM_UP = 3, DWELL_BATCH = 4, COPY_THREADS = 512, MAX_SIDE = 16384 };
/* A CTA of a collective keeps a CTA of a matrix product off its SM: by shared memory. */
enum { COPY_SHARED = 64 << 10 };
static const size_t STREAM_ELEMS = 64 * MIB, COPY_MAX = 1024 * MIB, HOST_MAX = 256 * MIB;
#define GATE_US 150.0
#define MAX_GATE_US 20000.0
#define LATER_US 6.0

#define CHECK(call) check((call), #call, __LINE__)
static void check(cudaError_t result, const char *what, int line)
{
	if (result == cudaSuccess)
		return;
	fprintf(stderr, "measure-c3: line %d: %s: %s\n", line, what, cudaGetErrorString(result));
	exit(1);
}

static void check(cublasStatus_t result, const char *what, int line)
{
	if (result == CUBLAS_STATUS_SUCCESS)
		return;
	fprintf(stderr, "measure-c3: line %d: %s: %s\n", line, what, cublasGetStatusString(result));
	exit(1);
}

/* ---- kernels ---- */

__global__ void spin(long long cycles)
{
	const long long begin = clock64();

	while (clock64() - begin < cycles)
		;
}

__global__ void fill(__nv_bfloat16 *out, size_t n)
{
	const size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
		const uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(i >> 7);

		out[i] = __float2bfloat16((float)(h >> 8) / 8388608.0f - 1.0f);
	}
}

/* Two read, one written, as elementwise kernels of training do. */
__global__ void stream_add(float4 *out, const float4 *a, const float4 *b, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = make_float4(a[i].x + b[i].x, a[i].y + b[i].y, a[i].z + b[i].z,
				     a[i].w + b[i].w);
}

__global__ void __launch_bounds__(COPY_THREADS) copy_by_sms(uint4 *to, const uint4 *from, size_t n)
{
	const size_t step = (size_t)gridDim.x * COPY_THREADS;
	size_t i = (size_t)blockIdx.x * COPY_THREADS + threadIdx.x;

	for (; i + 3 * step < n; i += 4 * step) {
		const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step],
			    d = from[i + 3 * step];

		to[i] = a;
		to[i + step] = b;
		to[i + 2 * step] = c;
		to[i + 3 * step] = d;
	}
	for (; i < n; i += step)
		to[i] = from[i];
}

/* ---- what is measured ---- */

struct compute {
	const char *kind, *dtype;
	int m, n, k; /* of a matrix product; else m: elements */
};
static const struct compute COMPUTES[] = {
	{"gemm", "bf16", 4096, 4096, 4096},  {"gemm", "bf16", 8192, 8192, 8192},
	{"gemm", "bf16", 2048, 8192, 8192},  {"stream", "fp32", (int)STREAM_ELEMS, 0, 0},
	{"gemm", "bf16", 256, 16384, 16384}, {"gemm", "bf16", 8192, 8192, 1024},
};
enum route { SM, D2D, D2D_ENGINE, H2D, D2H };
static const char *const ROUTE_NAMES[] = {"sm", "d2d", "d2d_engine", "h2d", "d2h"};
struct copy {
	enum route route;
	int ctas; /* of SM */
	size_t bytes;
};
static const int CTAS[] = {4, 16, 32, 2, 8, 24, 64};
static const double RATIOS[] = {1, 0.5, 2}; /* of the copy's time alone to the computation's */
/* --quick takes the first of each. */
enum { QUICK_COMPUTES = 4, QUICK_CTAS = 3, QUICK_RATIOS = 1 };
enum policy { PLAIN, COMM_FIRST, COPY_ENGINE };
static const char *const POLICY_NAMES[] = {"plain", "comm_first", "copy_engine"};
enum {
	COUNT_COMPUTES = sizeof(COMPUTES) / sizeof(COMPUTES[0]),
	COUNT_CTAS = sizeof(CTAS) / sizeof(CTAS[0]),
	COUNT_RATIOS = sizeof(RATIOS) / sizeof(RATIOS[0])
};

struct bench {
	cublasHandle_t blas;
	cudaStream_t gate, compute, comm, comm_urgent;
	cudaEvent_t open, begin[2], end[2];
	double cycles_per_us;
	char device[256];
	__nv_bfloat16 *a, *b, *c;
	float4 *x, *y, *z;
	uint4 *from, *to;
	void *host;
	int dwell_ms;
	bool quick;
	double gate_us; /* how long both sides are held back, so that all is enqueued by then */
};

static void run_compute(const struct bench *b, const struct compute *c, cudaStream_t stream)
{
	const float one = 1, zero = 0;

	if (strcmp(c->kind, "stream") == 0) {
		const size_t n = (size_t)c->m / 4;

		stream_add<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(b->z, b->x, b->y, n);
		CHECK(cudaGetLastError());
		return;
	}
	/* Row-major out[m][n] = a[m][k] · w[n][k], as a linear layer has it. */
	CHECK(cublasSetStream(b->blas, stream));
	CHECK(cublasGemmEx(b->blas, CUBLAS_OP_T, CUBLAS_OP_N, c->n, c->m, c->k, &one, b->b,
			   CUDA_R_16BF, c->k, b->a, CUDA_R_16BF, c->k, &zero, b->c, CUDA_R_16BF,
			   c->n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* A copy that asks for the engine: the driver may take SMs for one within a device. */
static void copy_by_engine(const struct bench *b, size_t bytes, cudaStream_t stream)
{
#if CUDART_VERSION >= 13000
	void *to = b->to;
	const void *from = b->from;
	cudaMemcpyAttributes attributes = {};
	size_t first = 0;

	attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
	CHECK(cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
#else
	CHECK(cudaMemcpyAsync(b->to, b->from, bytes, cudaMemcpyDeviceToDevice, stream));
#endif
}

static void run_copy(const struct bench *b, const struct copy *w, cudaStream_t stream)
{
	switch (w->route) {
	case SM:
		copy_by_sms<<<w->ctas, COPY_THREADS, COPY_SHARED, stream>>>(
			b->to, b->from, w->bytes / sizeof(uint4));
		CHECK(cudaGetLastError());
		break;
	case D2D:
		CHECK(cudaMemcpyAsync(b->to, b->from, w->bytes, cudaMemcpyDeviceToDevice, stream));
		break;
	case D2D_ENGINE:
		copy_by_engine(b, w->bytes, stream);
		break;
	case H2D:
		CHECK(cudaMemcpyAsync(b->to, b->host, w->bytes, cudaMemcpyHostToDevice, stream));
		break;
	case D2H:
		CHECK(cudaMemcpyAsync(b->host, b->from, w->bytes, cudaMemcpyDeviceToHost, stream));
		break;
	}
}

/* ---- times ---- */

struct times {
	double all_us, compute_us, comm_us;
};

static int compare(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static int n_discarded;

static double median(double *values)
{
	qsort(values, REPEATS, sizeof(*values), compare);
	return values[REPEATS / 2];
}

static double since_open_us(const struct bench *b, cudaEvent_t event)
{
	float ms;

	CHECK(cudaEventElapsedTime(&ms, b->open, event));
	return 1e3 * ms;
}

static void close_gate(const struct bench *b)
{
	spin<<<1, 1, 0, b->gate>>>((long long)(b->gate_us * b->cycles_per_us));
	CHECK(cudaEventRecord(b->open, b->gate));
}

/* Either side may be NULL: then the other alone. On one stream: one after the other. Whether the gate was still closed when
 * all was enqueued: else the host's time is part of what was measured. */
static bool run_once(const struct bench *b, const struct compute *c, const struct copy *w,
		     enum policy policy, bool one_stream, struct times *out)
{
	cudaStream_t first = b->compute;
	cudaStream_t second = one_stream ? first : policy == COMM_FIRST ? b->comm_urgent : b->comm;
	const long long later = (long long)(LATER_US * b->cycles_per_us);
	const bool both = c && w && !one_stream;
	double at[4] = {0, 0, 0, 0};
	cudaError_t gate;

	close_gate(b);
	CHECK(cudaStreamWaitEvent(first, b->open, 0));
	CHECK(cudaStreamWaitEvent(second, b->open, 0));
	if (both && policy != COPY_ENGINE)
		spin<<<1, 1, 0, policy == PLAIN ? second : first>>>(later);
	if (c) {
		CHECK(cudaEventRecord(b->begin[0], first));
		run_compute(b, c, first);
		CHECK(cudaEventRecord(b->end[0], first));
	}
	if (w) {
		CHECK(cudaEventRecord(b->begin[1], second));
		run_copy(b, w, second);
		CHECK(cudaEventRecord(b->end[1], second));
	}
	gate = cudaEventQuery(b->open);
	if (gate != cudaErrorNotReady)
		CHECK(gate);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 2; i++)
		if (i == 0 ? c != NULL : w != NULL) {
			at[2 * i] = since_open_us(b, b->begin[i]);
			at[2 * i + 1] = since_open_us(b, b->end[i]);
		}
	out->compute_us = at[1] - at[0];
	out->comm_us = at[3] - at[2];
	out->all_us = !w   ? out->compute_us
		      : !c ? out->comm_us
			   : (at[1] > at[3] ? at[1] : at[3]) - (at[0] < at[2] ? at[0] : at[2]);
	return gate == cudaErrorNotReady;
}

/* A run whose gate was open too early is taken again, with the gate closed for twice as long. */
static struct times measure(struct bench *b, const struct compute *c, const struct copy *w,
			    enum policy policy, bool one_stream)
{
	double all[REPEATS], compute[REPEATS], comm[REPEATS];
	struct times once;

	for (int i = -WARM_UP; i < REPEATS; i++) {
		const bool held = run_once(b, c, w, policy, one_stream, &once);

		if (i < 0) /* first calls load kernels */
			continue;
		if (!held) {
			b->gate_us *= 2;
			n_discarded++;
			if (b->gate_us > MAX_GATE_US) {
				fprintf(stderr,
					"measure-c3: the host takes longer than %.0f us to enqueue a run\n",
					MAX_GATE_US);
				exit(1);
			}
			i--;
			continue;
		}
		all[i] = once.all_us;
		compute[i] = once.compute_us;
		comm[i] = once.comm_us;
	}
	return (struct times){median(all), median(compute), median(comm)};
}

/* ---- clocks and power, through NVML if it is there ---- */

static struct {
	int (*clock)(void *device, int type, unsigned *mhz);
	int (*power)(void *device, unsigned *mw);
	void *device;
} nvml;
struct state {
	double clock_mhz, power_w; /* 0: not known */
};

static void open_nvml(int device)
{
	void *at = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = at ? (int (*)(void))dlsym(at, "nvmlInit_v2") : NULL;
	int (*find)(const char *, void **);
	char bus[32];

	if (!init || init() != 0)
		return;
	*(void **)&find = dlsym(at, "nvmlDeviceGetHandleByPciBusId_v2");
	CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
	if (!find || find(bus, &nvml.device) != 0)
		return;
	*(void **)&nvml.clock = dlsym(at, "nvmlDeviceGetClockInfo");
	*(void **)&nvml.power = dlsym(at, "nvmlDeviceGetPowerUsage");
}

/* The same again and again for a while; the mean of the second half. */
static struct state dwell(const struct bench *b, const struct compute *c, const struct copy *w,
			  enum policy policy)
{
	const cudaStream_t second = policy == COMM_FIRST ? b->comm_urgent : b->comm;
	struct state sum = {0, 0};
	double passed_us = 0;
	int n = 0;

	while (nvml.clock && nvml.power && passed_us < 1e3 * b->dwell_ms) {
		unsigned mhz = 0, mw = 0;
		float ms;

		CHECK(cudaEventRecord(b->begin[0], b->compute));
		for (int i = 0; i < DWELL_BATCH; i++) {
			run_compute(b, c, b->compute);
			if (w)
				run_copy(b, w, second);
		}
		CHECK(cudaEventRecord(b->end[0], b->compute));
		if (nvml.clock(nvml.device, 1 /* SM */, &mhz) || nvml.power(nvml.device, &mw))
			break;
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaEventElapsedTime(&ms, b->begin[0], b->end[0]));
		passed_us += 1e3 * ms;
		if (passed_us < 500.0 * b->dwell_ms)
			continue;
		sum.clock_mhz += mhz;
		sum.power_w += mw / 1e3;
		n++;
	}
	return n ? (struct state){sum.clock_mhz / n, sum.power_w / n} : sum;
}

/* ---- the table ---- */

static const char HEAD[] =
	"case,source,quality,device,gpus,dtype,kind,m,n,k,collective,bytes,policy,compute_us,comm_us,"
	"serial_us,overlapped_us,route,ctas,priority,compute_overlapped_us,comm_overlapped_us,"
	"compute_clock_mhz,compute_power_w,clock_mhz,power_w";

static void put_known(double value)
{
	if (value > 0)
		printf(",%.0f", value);
	else
		printf(",");
}

static void put_shape(const struct compute *c)
{
	if (c->n)
		printf("%d,%d,%d", c->m, c->n, c->k);
	else
		printf("%d,,", c->m);
}

struct alone {
	double compute_us;
	struct state state;
};

static void put_row(struct bench *b, const struct compute *c, const struct copy *w,
		    enum policy policy, const struct alone *alone)
{
	const double comm_us = measure(b, NULL, w, policy, false).comm_us;
	const double serial_us = measure(b, c, w, policy, true).all_us;
	const struct times both = measure(b, c, w, policy, false);
	const struct state state = dwell(b, c, w, policy);
	char ctas[16] = "";

	if (w->route == SM)
		snprintf(ctas, sizeof(ctas), "%d", w->ctas);
	printf("%s-%s-%dx%dx%d-%s%s-%zu-%s,measure-c3,ok,%s,1,%s,%s,", b->device, c->kind, c->m,
	       c->n, c->k, ROUTE_NAMES[w->route], ctas, w->bytes, POLICY_NAMES[policy], b->device,
	       c->dtype, c->kind);
	put_shape(c);
	printf(",copy,%zu,%s,%.1f,%.1f,%.1f,%.1f,%s,%s,%s,%.1f,%.1f", w->bytes,
	       POLICY_NAMES[policy], alone->compute_us, comm_us, serial_us, both.all_us,
	       ROUTE_NAMES[w->route], ctas, policy == COMM_FIRST ? "high" : "same", both.compute_us,
	       both.comm_us);
	put_known(alone->state.clock_mhz);
	put_known(alone->state.power_w);
	put_known(state.clock_mhz);
	put_known(state.power_w);
	printf("\n");
	fflush(stdout);
}

/* As many bytes as the route moves in that time. */
static size_t bytes_for(struct bench *b, struct copy w, double us)
{
	const size_t max = w.route >= H2D ? HOST_MAX : COPY_MAX;
	size_t bytes;

	w.bytes = max / 4;
	bytes = (size_t)(us * (double)w.bytes / measure(b, NULL, &w, PLAIN, false).comm_us);
	bytes = (bytes + MIB / 2) / MIB * MIB;
	return bytes < MIB ? MIB : bytes > max ? max : bytes;
}

static void put_pairs(struct bench *b, const struct compute *c, struct copy w,
		      const struct alone *alone)
{
	for (int r = 0; r < (b->quick ? (int)QUICK_RATIOS : (int)COUNT_RATIOS); r++) {
		w.bytes = bytes_for(b, w, RATIOS[r] * alone->compute_us);
		if (w.route != SM) {
			put_row(b, c, &w, COPY_ENGINE, alone);
			continue;
		}
		put_row(b, c, &w, PLAIN, alone);
		put_row(b, c, &w, COMM_FIRST, alone);
	}
}

static void put_table(struct bench *b)
{
	puts(HEAD);
	for (int i = 0; i < (b->quick ? (int)QUICK_COMPUTES : (int)COUNT_COMPUTES); i++) {
		const struct compute *c = &COMPUTES[i];
		const struct alone alone = {measure(b, c, NULL, PLAIN, false).compute_us,
					    dwell(b, c, NULL, PLAIN)};

		for (int k = 0; k < (b->quick ? (int)QUICK_CTAS : (int)COUNT_CTAS); k++)
			put_pairs(b, c, (struct copy){SM, CTAS[k], 0}, &alone);
		for (int route = D2D; route <= D2H; route++)
			put_pairs(b, c, (struct copy){(enum route)route, 0, 0}, &alone);
	}
}

/* ---- the device ---- */

/* By stepcast's name of it. */
static void name_device(const char *name, char *out, size_t n)
{
	/* the first that is in it: a longer name before one that it holds */
	static const char *const known[][2] = {
		{"GH200", "gh200-96gb"},
		{"GB200", "gb200"},
		{"H200 NVL", "h200-nvl-141gb"},
		{"H200", "h200-sxm-141gb"},
		{"H100 80GB HBM3", "h100-sxm-80gb"},
		{"H100 PCIe", "h100-pcie-80gb"},
		{"H800", "h800-sxm-80gb"},
		{"H20", "h20"},
		{"A100-SXM4-80GB", "a100-sxm-80gb"},
		{"A100-SXM4-40GB", "a100-sxm-40gb"},
		{"A100 80GB PCIe", "a100-pcie-80gb"},
		{"A100-PCIE-40GB", "a100-pcie-40gb"},
		{"A800-SXM4-80GB", "a800-sxm-80gb"},
		{"B200", "b200-sxm-180gb"},
		{"B300", "b300-sxm-270gb"},
		{"L40S", "l40s"},
		{"L40", "l40"},
		{"L20", "l20"},
		{"L4", "l4"},
		{"V100-SXM2-32GB", "v100-sxm-32gb"},
		{"V100-SXM2-16GB", "v100-sxm-16gb"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(name, known[i][0])) {
			snprintf(out, n, "%s", known[i][1]);
			return;
		}
	snprintf(out, n, "%s", name);
	for (char *c = out; *c; c++)
		*c = *c == ' ' || *c == ',' ? '-' : *c;
}

template <typename T> static T *take(size_t n)
{
	void *at;

	CHECK(cudaMalloc(&at, n * sizeof(T)));
	CHECK(cudaMemset(at, 0, n * sizeof(T)));
	return (T *)at;
}

static void make_streams(struct bench *b)
{
	int low, high;

	CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
	CHECK(cudaStreamCreateWithFlags(&b->gate, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithPriority(&b->compute, cudaStreamNonBlocking, low));
	CHECK(cudaStreamCreateWithPriority(&b->comm, cudaStreamNonBlocking, low));
	CHECK(cudaStreamCreateWithPriority(&b->comm_urgent, cudaStreamNonBlocking, high));
	CHECK(cudaEventCreate(&b->open));
	for (int i = 0; i < 2; i++) {
		CHECK(cudaEventCreate(&b->begin[i]));
		CHECK(cudaEventCreate(&b->end[i]));
	}
}

static void make_memory(struct bench *b)
{
	const size_t side = (size_t)MAX_SIDE * MAX_SIDE;

	b->a = take<__nv_bfloat16>(side);
	b->b = take<__nv_bfloat16>(side);
	b->c = take<__nv_bfloat16>(side);
	fill<<<1024, 256>>>(b->a, side);
	fill<<<1024, 256>>>(b->b, side);
	b->x = take<float4>(STREAM_ELEMS / 4);
	b->y = take<float4>(STREAM_ELEMS / 4);
	b->z = take<float4>(STREAM_ELEMS / 4);
	b->from = take<uint4>(COPY_MAX / sizeof(uint4));
	b->to = take<uint4>(COPY_MAX / sizeof(uint4));
	CHECK(cudaMallocHost(&b->host, HOST_MAX));
	memset(b->host, 1, HOST_MAX);
	CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
	struct bench b = {};
	cudaDeviceProp properties;
	int n = 0, khz = 0;

	if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
		fprintf(stderr, "skipped: no NVIDIA GPU\n");
		return 77;
	}
	b.dwell_ms = argc > 1 ? atoi(argv[1]) : 200;
	b.quick = argc > 2;
	b.gate_us = GATE_US;
	CHECK(cudaSetDevice(0));
	CHECK(cudaGetDeviceProperties(&properties, 0));
	CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
	b.cycles_per_us = khz / 1e3;
	name_device(properties.name, b.device, sizeof(b.device));
	CHECK(cudaFuncSetAttribute(copy_by_sms, cudaFuncAttributeMaxDynamicSharedMemorySize,
				   COPY_SHARED));
	CHECK(cublasCreate(&b.blas));
	make_streams(&b);
	make_memory(&b);
	open_nvml(0);
	put_table(&b);
	if (n_discarded)
		fprintf(stderr,
			"measure-c3: %d runs were discarded and taken again, since the host was late; gate %.0f us\n",
			n_discarded, b.gate_us);
	return 0;
}
