/* Shapes and times of embedding kernels. Lookups become bytes in memory, in the last cache and on
 * the host by how the rows are reused (models/row_reuse.h). A kernel takes its bytes at the rate
 * that random rows reach, and an SM's time for every row, which alone decides where rows are
 * narrow. Backward is FBGEMM's: indices are sorted, a warp (or a block, where there are many) sums
 * the gradients of a row's lookups, and the row is stepped once. */
#include "models/embedding_kernel.h"

#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"
#include "models/row_reuse.h"
#include "models/rowwise.h"

/* Memory and caches move at least a sector (CUDA C++ Best Practices Guide, coalesced access). */
#define SECTOR_BYTES 32.0
#define INDEX_BYTES 8.0
#define WEIGHT_BYTES 4.0
#define STATE_BYTES 4.0
#define SUM_BYTES 4.0
#define SLOT_BYTES 4.0 /* place of a row in the cache */
#define DEFAULT_OUTPUT_BYTES 4.0
#define SSD_GBPS                                                                                 \
	0.1 /* of a rank's share: TorchRec's planner (torchrec/distributed/planner/constants.py) \
	     */
/* The share of the last cache that rows keep (ml_perf_model). Tables are worked on one after
 * another: counters of V100 kernels show each row of 32 tables read once, where a table's share of
 * the cache is half of it. */
#define CACHE_FRAC 0.9
/* Bags that an SM works on at a time: one a warp, half of 64. A block of FBGEMM's has up to 512
 * threads, to which AMD's compiler gives twice the registers: one of 8 wavefronts fits. */
#define BAGS_PER_SM 32.0
#define BAGS_PER_CU 8.0
enum { WARP_LANES = 32, WAVEFRONT_LANES = 64 };
/* The time of a load that the last cache answers over that of memory's: 262 and 466 cycles on A100,
 * 263 and 479 on H100 (Luo et al. 2024, Dissecting the Nvidia Hopper GPU Architecture). */
#define CACHE_LOAD_FRAC 0.56

/* A walk is how a kernel goes through the rows of a bag. */
struct walk {
	double narrow_cols; /* up to so many columns have a thread each; a warp takes all of a wider
			       row */
	double in_flight;   /* rows that are loaded before the first is added */
	double step_cycles; /* between a row's arrival and the next one's load */
};
static const struct walk WALKS[SC_N_EMBEDDING_KERNELS] = {
	/* A warp's lanes share the indices of its bag (pytorch/FBGEMM
	 * embedding_forward_split_kernel_template.cu); the loop is unrolled four times by hand for
	 * AMD. V100's kernels are faster than a row at a time could be. */
	[SC_KERNEL_TBE] = {.in_flight = 4, .step_cycles = 50},
	[SC_KERNEL_TBE_HIP] = {.in_flight = 1, .step_cycles = 50},
	/* The loop is the same, but for narrow rows (NVIDIA-Merlin/HugeCTR generic_lookup.cuh). */
	[SC_KERNEL_HUGECTR] = {.narrow_cols = 64, .in_flight = 4, .step_cycles = 50},
	/* PyTorch's EmbeddingBag.cu loads the index (from L1), then the element, then does 64-bit
	 * arithmetic; stores to other arrays keep the compiler from loading ahead. */
	[SC_KERNEL_PYTORCH] = {.narrow_cols = HUGE_VAL, .in_flight = 1, .step_cycles = 100},
};

const struct sc_name sc_row_optimizer_names[] = {
	{"sgd", SC_ROW_SGD},
	{"rowwise_adagrad", SC_ROW_ROWWISE_ADAGRAD},
	{"adagrad", SC_ROW_ADAGRAD},
	{"adam", SC_ROW_ADAM},
	{"atomic_sgd", SC_ROW_ATOMIC_SGD},
	{0},
};

double sc_row_state_bytes(enum sc_row_optimizer optimizer, double cols)
{
	switch (optimizer) {
	case SC_ROW_ROWWISE_ADAGRAD:
		return STATE_BYTES;
	case SC_ROW_ADAGRAD:
		return STATE_BYTES * cols;
	case SC_ROW_ADAM:
		return 2 * STATE_BYTES * cols;
	case SC_ROW_SGD:
	case SC_ROW_ATOMIC_SGD:
		break;
	}
	return 0;
}

/* ---- shapes ---- */

/* The numbers that follow from a use, for each of its `count` tables. */
struct work {
	const struct sc_embedding_use *use;
	const struct sc_reuse *reuse;
	double count, rows, row_frac; /* rows: of the whole table */
	double lookups, unique, outputs;
	double bags;                   /* that have lookups here */
	double whole_lookups;          /* of the whole table */
	double cols, weight_bytes;     /* of a row; of its elements */
	double row_bytes, state_bytes; /* of one row, in sectors */
	double grad_bytes;             /* of one output */
	double cache_bytes;            /* of the last cache */
};

static double or_default(double value, double fallback)
{
	return value > 0 ? value : fallback;
}

static double whole_sector_bytes(double bytes)
{
	return SECTOR_BYTES * ceil(bytes / SECTOR_BYTES);
}

static double rows_fact(const struct work *w, enum sc_row_fact fact, double cached_rows)
{
	struct sc_row_question q = {fact, w->rows, w->whole_lookups, cached_rows};

	if (fact == SC_ROWS_HOT_FRAC || fact == SC_ROWS_HIT)
		q.lookups = 0;
	return sc_row_fact(w->use->memo, w->reuse, &q);
}

/* The share of a call's rows that the next call misses, where they fill so many times the cache.
 * They recur in order: the best policy misses 1 - 1/filled of them (Belady 1966), one that lets the
 * oldest go misses all. V100 kernels miss none of 0.93 times the cache and all of 1.86. */
static double missed_again(double filled)
{
	return filled > 1 ? fmin(1, 2 * (1 - 1 / filled)) : 0;
}

/* The lookups that do not find their row in the last cache. */
static double cache_misses(const struct work *w)
{
	double cached_rows = w->cache_bytes / w->row_bytes / w->row_frac;

	if (w->unique <= cached_rows * w->row_frac || !(cached_rows >= 1))
		return cached_rows >= 1 ? w->unique : w->lookups;
	if (w->use->unique_rows > 0)
		return sc_reuse_told_misses(w->unique, w->lookups, cached_rows * w->row_frac);
	return fmin(fmax(rows_fact(w, SC_ROWS_MISSES, cached_rows) * w->row_frac, w->unique),
		    w->lookups);
}

/* Adds bytes of rows to the memory in which the table lies. */
static void add_rows(const struct work *w, double bytes, struct sc_embedding_shape *out)
{
	bytes *= w->count;
	if (w->use->tier == SC_TIER_UVM)
		out->host_bytes += bytes;
	else if (w->use->tier == SC_TIER_SSD)
		out->ssd_bytes += bytes;
	else
		out->hbm_bytes += bytes;
}

static double index_bytes(const struct work *w)
{
	double bytes = INDEX_BYTES;

	if (w->use->table->weighted)
		bytes += WEIGHT_BYTES;
	if (w->use->tier == SC_TIER_CACHED)
		bytes += SLOT_BYTES;
	return bytes * w->lookups;
}

static double longest_run(const struct work *w)
{
	double run;

	if (w->use->longest_run > 0)
		return w->use->longest_run;
	run = fmax(1, w->whole_lookups * rows_fact(w, SC_ROWS_HOT_FRAC, 0));
	return fmin(w->lookups, run);
}

static void add_reads(const struct work *w, double misses, struct sc_embedding_shape *out)
{
	add_rows(w, misses * w->row_bytes, out);
	out->l2_bytes += w->count * (w->lookups - misses) * w->row_bytes;
}

/* Every lookup reads its row, adds, and writes it back. */
static void add_atomics(const struct work *w, double misses, struct sc_embedding_shape *out)
{
	add_rows(w, 2 * misses * w->row_bytes, out);
	out->l2_bytes += w->count * 2 * (w->lookups - misses) * w->row_bytes;
}

/* PyTorch writes the sparse gradient of each lookup separately, as wide as the weights. GradScaler
 * reads and writes them once more where the outputs are 16 bits. SGD scales a copy, and adds that
 * to the rows (add_ of an uncoalesced tensor: mul, index_add_); other optimizers sort and sum them
 * first, as FBGEMM does. */
static void add_sparse_backward(const struct work *w, double misses, struct sc_embedding_shape *out)
{
	const bool sorts =
		w->use->optimizer != SC_ROW_SGD && w->use->optimizer != SC_ROW_ATOMIC_SGD;
	const double bytes = w->count * w->lookups * w->weight_bytes;
	const bool unscaled = w->grad_bytes < w->weight_bytes;

	out->copy_bytes += w->count * w->lookups * w->grad_bytes + bytes;
	out->copy_bytes += 2 * bytes * ((unscaled ? 1 : 0) + (sorts ? 0 : 1));
	out->n_kernels = fmax(out->n_kernels, 3 + unscaled);
	out->stream_bytes += w->count * index_bytes(w) + bytes;
	if (sorts) {
		add_rows(w, 2 * w->unique * (w->row_bytes + w->state_bytes), out);
		out->sort_keys += w->count * w->lookups;
		out->longest_run = fmax(out->longest_run, longest_run(w));
	} else {
		add_atomics(w, misses, out);
	}
}

static bool weighs_lookups(const struct work *w)
{
	const enum sc_embedding_kernel kernel = w->use->kernel;

	return w->use->table->weighted && !w->use->table->sequence &&
	       (kernel == SC_KERNEL_TBE || kernel == SC_KERNEL_TBE_HIP);
}

static void add_backward(const struct work *w, double misses, struct sc_embedding_shape *out)
{
	/* Every lookup gathers its bag's gradient: once from memory, then from the cache as far as
	 * the gradients of the table stay in it. */
	double all = w->outputs * w->grad_bytes;
	double resident = all > 0 ? fmin(1, w->cache_bytes / all) : 1;
	double again = fmax(0, w->lookups - w->outputs) * w->grad_bytes;

	if (w->use->kernel == SC_KERNEL_PYTORCH) {
		add_sparse_backward(w, misses, out);
		return;
	}
	/* FBGEMM's backward pass has a kernel of its own for the gradients of the lookups' weights,
	 * which are written whether or not asked for: each is its row times its bag's gradient. */
	if (weighs_lookups(w)) {
		add_reads(w, misses, out);
		out->stream_bytes += w->count * (all + index_bytes(w) + WEIGHT_BYTES * w->lookups);
		out->n_kernels = 2;
	}
	out->stream_bytes += w->count * (index_bytes(w) + fmin(all, w->lookups * w->grad_bytes));
	out->hbm_bytes += w->count * again * (1 - resident);
	out->l2_bytes += w->count * again * resident;
	if (w->use->optimizer == SC_ROW_ATOMIC_SGD) {
		add_atomics(w, misses, out);
		return;
	}
	add_rows(w, 2 * w->unique * (w->row_bytes + w->state_bytes), out);
	out->sort_keys += w->count * w->lookups;
	out->longest_run = fmax(out->longest_run, longest_run(w));
	/* HugeCTR's sums of gradients are a tensor: reduced in two kernels, read by a third that
	 * steps the rows (multi_to_one_reduce_v2.cuh). */
	if (w->use->kernel == SC_KERNEL_HUGECTR) {
		out->copy_bytes += 2 * w->count * w->unique * w->cols * SUM_BYTES;
		out->n_kernels = 3;
	}
}

/* Rows that are not in the cache come in, and as many go back with their state. */
static void add_prefetch(const struct work *w, struct sc_embedding_shape *out)
{
	double cached = w->use->cache_frac * w->rows, misses;

	if (w->use->tier != SC_TIER_CACHED)
		return;
	misses = w->lookups * (1 - rows_fact(w, SC_ROWS_HIT, cached));
	misses = fmin(misses, w->unique);
	out->tables += w->count;
	out->lookups += w->count * misses;
	out->unique_rows += w->count * misses;
	out->stream_bytes += w->count * index_bytes(w);
	out->sort_keys += w->count * w->lookups;
	out->host_bytes += w->count * 2 * misses * (w->row_bytes + w->state_bytes);
}

/* Each bag waits for its offset and its first index, whose lines its neighbours have brought, and
 * then for its rows, so many at a time. */
static void add_waits(const struct sc_device *device, const struct work *w, double misses,
		      struct sc_embedding_shape *out)
{
	const struct walk *walk = &WALKS[w->use->kernel];
	const double lanes = device->cuda_capability > 0 ? WARP_LANES : WAVEFRONT_LANES;
	const double warps = w->cols <= walk->narrow_cols ? ceil(w->cols / lanes) : 1;
	const double near = device->embedding.load_cycles * CACHE_LOAD_FRAC;
	const double row = near + (device->embedding.load_cycles - near) * misses / w->lookups;
	const double rows = fmax(1, w->lookups / w->bags / walk->in_flight);
	const double waits = 2 * near + rows * (row + walk->step_cycles);

	if (!(near > 0))
		return;
	out->wait_cycles += w->count * w->bags * warps * waits;
	out->longest_wait_cycles = fmax(out->longest_wait_cycles, waits);
}

static void add_use(const struct sc_device *device, const struct work *w,
		    enum sc_embedding_pass pass, struct sc_embedding_shape *out)
{
	double misses;

	if (!(w->lookups > 0) || !(w->rows > 0))
		return;
	if (pass == SC_EMBEDDING_PREFETCH) {
		add_prefetch(w, out);
		return;
	}
	misses = pass == SC_EMBEDDING_FORWARD || w->use->optimizer == SC_ROW_ATOMIC_SGD ||
				 w->use->kernel == SC_KERNEL_PYTORCH || weighs_lookups(w)
			 ? cache_misses(w)
			 : 0;
	out->tables += w->count;
	out->lookups += w->count * w->lookups;
	out->unique_rows += w->count * w->unique;
	out->outputs += w->count * w->outputs;
	if (pass == SC_EMBEDDING_FORWARD) {
		double output_bytes = w->outputs * (w->grad_bytes + INDEX_BYTES);

		if (w->use->warm)
			misses *=
				missed_again(w->count * w->unique * w->row_bytes / w->cache_bytes);
		add_reads(w, misses, out);
		out->stream_bytes += w->count * (index_bytes(w) + output_bytes);
		add_waits(device, w, misses, out);
	} else
		add_backward(w, misses, out);
}

static struct work work_of(const struct sc_device *device, const struct sc_embedding_use *use)
{
	const struct sc_table *table = use->table;
	double cols = or_default(use->cols, (double)table->dim);
	double bags = use->samples * or_default((double)table->features, 1);
	enum sc_dtype dtype = table->storage > 0 ? (enum sc_dtype)(table->storage - 1) : use->dtype;
	struct work work = {
		.use = use,
		.reuse = &table->reuse,
		.count = or_default((double)table->count, 1),
		.rows = (double)table->rows,
		.row_frac = or_default(use->row_frac, 1),
		.whole_lookups = bags * table->pooling,
		.cols = cols,
		.weight_bytes = cols * sc_dtype_bytes(dtype),
		.row_bytes = whole_sector_bytes(cols * sc_dtype_bytes(dtype)),
		.grad_bytes = cols * or_default(use->output_bytes, DEFAULT_OUTPUT_BYTES),
		.cache_bytes = CACHE_FRAC * device->l2_mib * SC_BYTES_PER_MIB,
	};

	work.lookups = work.whole_lookups * work.row_frac * or_default(use->skew, 1);
	work.outputs = table->sequence ? work.lookups : bags * or_default(use->output_frac, 1);
	work.bags = fmin(table->sequence ? bags : work.outputs, work.lookups);
	if (sc_row_state_bytes(use->optimizer, cols) > 0)
		work.state_bytes = whole_sector_bytes(sc_row_state_bytes(use->optimizer, cols));
	work.unique = use->unique_rows;
	if (!(work.unique > 0))
		work.unique = work.row_frac * rows_fact(&work, SC_ROWS_UNIQUE, 0);
	work.unique = fmin(work.unique, work.lookups);
	return work;
}

struct sc_embedding_shape sc_embedding_shape_of(const struct sc_device *device,
						const struct sc_embedding_use *uses, size_t n,
						enum sc_embedding_pass pass)
{
	struct sc_embedding_shape out = {.pass = pass};

	for (size_t i = 0; i < n; i++) {
		const struct work work = work_of(device, &uses[i]);

		add_use(device, &work, pass, &out);
	}
	return out;
}

void sc_embedding_shapes_of(const struct sc_device *device, const struct sc_embedding_use *uses,
			    size_t n, struct sc_embedding_shape *out)
{
	for (int pass = 0; pass < SC_N_EMBEDDING_PASSES; pass++)
		out[pass] = (struct sc_embedding_shape){.pass = (enum sc_embedding_pass)pass};
	for (size_t i = 0; i < n; i++) {
		const struct work work = work_of(device, &uses[i]);

		for (int pass = 0; pass < SC_N_EMBEDDING_PASSES; pass++)
			add_use(device, &work, (enum sc_embedding_pass)pass, &out[pass]);
	}
}

/* ---- times ---- */

/* SMs share the rows, but the longest run is one block's alone. */
static double issue_us(const struct sc_device *device, const struct sc_embedding_shape *s)
{
	const struct sc_embedding_coef *c = &device->embedding;
	double cycles = s->lookups * c->lookup_cycles;

	if (s->longest_run > 0)
		cycles += s->unique_rows * c->row_cycles;
	cycles /= (double)device->sm_count;
	cycles += fmin(s->longest_run, c->run_max) * c->run_cycles;
	return sc_mhz_cycles_us(cycles, device->boost_mhz);
}

/* Bags wait for rows, as many at a time as an SM has; if all have room, the longest decides. */
static double wait_us(const struct sc_device *device, const struct sc_embedding_shape *s)
{
	const double bags = device->cuda_capability > 0 ? BAGS_PER_SM : BAGS_PER_CU;

	return sc_mhz_cycles_us(
		fmax(s->longest_wait_cycles, s->wait_cycles / (bags * (double)device->sm_count)),
		device->boost_mhz);
}

/* The time of bytes through the last cache. Its rate for rows grows with memory's up to what SMs
 * take. A100's gives its 108 SMs 5,120 bytes a clock, V100's its own 2,048 (NVIDIA A100 Tensor Core
 * GPU Architecture, 2020), of which V100's kernels reach 0.64. */
static double cache_us(const struct sc_device *device, double bytes)
{
	const double reached = 0.64, bytes_clk = 5120.0 / 108 * (double)device->sm_count;

	return fmax(sc_bytes_us(bytes, device->hbm_gbps * device->embedding.l2_ratio),
		    sc_mhz_cycles_us(bytes / (reached * bytes_clk), device->boost_mhz));
}

static double memory_us(const struct sc_device *device, const struct sc_embedding_shape *s)
{
	const struct sc_embedding_coef *c = &device->embedding;
	bool reads = s->pass == SC_EMBEDDING_FORWARD;
	double hbm = sc_bytes_us(s->hbm_bytes + s->stream_bytes,
				 device->hbm_gbps * (reads ? c->hbm_eff : c->update_eff));
	double l2 = cache_us(device, s->hbm_bytes + s->stream_bytes + s->l2_bytes);

	return sc_smooth_max(hbm, l2) +
	       sc_bytes_us(s->sort_keys * c->sort_bytes, device->hbm_gbps * c->hbm_eff) +
	       sc_bytes_us(s->copy_bytes, device->hbm_gbps * device->rowwise.hbm_eff);
}

/* The shares of the PCIe rate for rows over UVM and rows into the cache: FBGEMM's UVM and LXU-cache
 * times of 32 tables of 100,000 x 128 over PCIe 5 are 51 and 33 GB/s. */
#define UVM_EFF 0.8
#define PREFETCH_EFF 0.5

static double host_us(const struct sc_device *device, const struct sc_embedding_shape *s)
{
	double eff = s->pass == SC_EMBEDDING_PREFETCH ? PREFETCH_EFF : UVM_EFF;

	return s->host_bytes > 0 ? sc_bytes_us(s->host_bytes, device->pcie_gbps * eff) : 0;
}

static void embedding_time(const struct sc_device *device, const struct sc_op *op,
			   struct sc_op_time *out)
{
	const struct sc_embedding_shape *s = &op->u.embedding;
	const struct sc_embedding_coef *c = &device->embedding;

	*out = (struct sc_op_time){.limit = "fixed", .waves = 1, .sm_frac = SC_MEMORY_SM_FRAC};
	if (s->tables > 0) {
		const double wait = wait_us(device, s);

		out->math_us = issue_us(device, s);
		out->memory_us = memory_us(device, s);
		out->host_us = host_us(device, s);
		out->fixed_us =
			c->fixed_us * fmax(1, s->n_kernels) + (s->sort_keys > 0 ? c->sort_us : 0);
		out->total_us =
			out->fixed_us +
			sc_smooth_max(out->math_us + sc_smooth_max(out->memory_us, out->host_us),
				      wait);
		if (s->ssd_bytes > 0)
			out->total_us += sc_bytes_us(s->ssd_bytes, SSD_GBPS);
		out->waves += floor(s->lookups / (BAGS_PER_SM * (double)device->sm_count));
		if (fmax(out->math_us, fmax(out->memory_us, out->host_us)) > out->fixed_us)
			out->limit = out->math_us > fmax(out->memory_us, out->host_us) ? "math"
										       : "memory";
	}
	sc_op_trust(device, "embedding", c->spread_frac, out);
}

const struct sc_op_model sc_embedding_model = {.name = "embedding", .time = embedding_time};
