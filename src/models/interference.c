/* Demands of kernels, collectives and copies that run at once, and the slowdowns that follow.
 * Traffic factors and the issue of copies follow ConCCL (arXiv:2412.14335) and DMA collectives;
 * coefficients stand in device files. */
#include "models/interference.h"

#include <math.h>

#include "base/units.h"
#include "models/collective/collective_priv.h"
#include "models/op_model_priv.h"
#include "models/rowwise.h"

/* Each byte that is moved is read and written once. */
#define HBM_PER_BYTE 2.0

/* A product's largest tiles; those of AMD's libraries are square. */
#define TILE_ROWS 256.0
#define TILE_COLUMNS(device) ((device)->cuda_capability ? 128.0 : 256.0)
/* The last wave is paid by tiles up to this share of a wave, so that times stay continuous. */
#define WAVE_RAMP 0.05
/* Fewer busy units clock higher on a GPU at its power limit: with power by the cube of the clock
 * their rate would go with n^(2/3). 256, 1024 and 4096 tiles on 304, 288, 272, 256 and 240 units of
 * an MI300X ask for 0.48 to 0.69; from 0.5 to 0.65 no score of the measured pairs moves. */
#define WAVE_POWER 0.6

static double waves_on(const struct sc_device *device, const struct sc_op *product, double sms)
{
	const struct sc_gemm_shape *g = &product->u.gemm;
	const double w = g->batch * g->m * g->n / (TILE_ROWS * TILE_COLUMNS(device)) / sms;

	return fmax(1, floor(w) + fmin(1, (w - floor(w)) / WAVE_RAMP));
}

/* Gives the device fewer SMs: math falls with them, products by whole waves; memory does not. */
static void take_sms(const struct sc_device *device, const struct sc_op *op, double sms,
		     struct sc_device *out)
{
	const double all = (double)device->sm_count;
	double share = sms / all;

	*out = *device;
	if (op->kind == SC_OP_GEMM)
		share = pow(waves_on(device, op, all) / waves_on(device, op, sms), WAVE_POWER);
	else
		out->sm_count = (int64_t)sms;
	for (int type = 0; type < SC_N_DTYPES; type++)
		out->peak_tflops[type] *= share;
}

static void scale(struct sc_cost *cost, double factor)
{
	cost->latency_us *= factor;
	cost->work_us *= factor;
}

/* The rate that a GPU's port achieves: its links', or PCIe's where it has none. */
static double port_gbps(const struct sc_fabric *f)
{
	return f->link_gbps > 0 ? f->link_gbps * f->link.eff : f->pcie_gbps * f->ramp.pcie_eff;
}

/* A collective over NICs loads the path by the share of links' rate that it moves: little. */
static void load_collective(const struct sc_device *device, const struct sc_fabric *fabric,
			    struct sc_cost *cost)
{
	if (fabric->torus.dims.n)
		return; /* what its endpoint takes is kept for it */
	if (cost->demand[SC_RES_COPY] > 0) {
		cost->demand[SC_RES_L2] = device->interference.path_copy;
		return;
	}
	/* links feed the path at full speed */
	cost->demand[SC_RES_L2] =
		device->interference.path_comm *
		(cost->demand[SC_RES_NIC] > 0
			 ? fmin(1, (cost->demand[SC_RES_HBM] * fabric->hbm_gbps / HBM_PER_BYTE) /
					   port_gbps(fabric))
			 : 1);
}

void sc_interfere_kernel(const struct sc_device *device, const struct sc_op *op, double sms,
			 double given_us, struct sc_cost *out)
{
	struct sc_device fewer;
	struct sc_cost all;

	sc_op_cost(device, op, &all);
	sc_interfere_load_kernel(device, &all);
	*out = all;
	if (sms > 0 && sms < (double)device->sm_count) {
		take_sms(device, op, sms, &fewer);
		sc_op_cost(&fewer, op, out);
		sc_interfere_load_kernel(device, out);
		out->demand[SC_RES_SM] *= sms / (double)device->sm_count;
		if (sc_cost_alone_us(out) < sc_cost_alone_us(&all)) /* fewer SMs are never faster */
			scale(out, sc_cost_alone_us(&all) / sc_cost_alone_us(out));
	}
	if (given_us > 0)
		scale(out, given_us / sc_cost_alone_us(&all));
}

static double weight_bytes(const struct sc_op *gemm)
{
	return sc_dtype_bytes(gemm->dtype) * gemm->u.gemm.n * gemm->u.gemm.k * gemm->u.gemm.batch;
}

/* Rows of a tile on tensor cores: the fewest that the op model has, and the fewest there are. */
#define FEW_TILE_ROWS 64.0
#define FEWEST_TILE_ROWS 16.0

double sc_interfere_next_piece_factor(const struct sc_device *device, const struct sc_op *piece)
{
	const double weights = weight_bytes(piece);
	struct sc_op_time time;
	double first_us;

	if (weights > device->l2_mib * SC_BYTES_PER_MIB)
		return 1;
	sc_op_model_get(SC_OP_GEMM)->time(device, piece, &time);
	first_us = time.fixed_us + sc_smooth_max(time.math_us, time.memory_us);
	time.memory_us -= sc_memory_us(device, weights, device->gemm.hbm_eff, 0);
	/* Tiles of products that memory bounds have few rows, which the op model need not know. */
	time.math_us *= fmin(1, fmax(FEWEST_TILE_ROWS, piece->u.gemm.m) / FEW_TILE_ROWS);
	return (time.fixed_us + sc_smooth_max(time.math_us, fmax(0, time.memory_us))) / first_us;
}

double sc_interfere_fused_factor(const struct sc_device *device, const struct sc_op *gemm,
				 double n_ranks)
{
	const double weights = weight_bytes(gemm);
	struct sc_op_time time;
	double alone_us;

	sc_op_model_get(SC_OP_GEMM)->time(device, gemm, &time);
	alone_us = sc_smooth_max(time.math_us, time.memory_us);
	time.math_us *= 1 + device->interference.fused_loss;
	/* One sweep after another through more than the cache holds finds nothing in it. */
	if (weights > device->l2_mib * SC_BYTES_PER_MIB)
		time.memory_us +=
			(n_ranks - 1) * sc_memory_us(device, weights, device->gemm.hbm_eff, 0);
	return sc_smooth_max(time.math_us, time.memory_us) / alone_us;
}

/* Blocks spread over SMs before an SM gets its second. */
static double sm_share(const struct sc_device *device, double blocks)
{
	return blocks > 0 ? fmin(1, blocks / (double)device->sm_count) : 1;
}

void sc_interfere_seen_kernel(const struct sc_device *device, const struct sc_interfere_seen *seen,
			      struct sc_cost *out)
{
	double share = sm_share(device, seen->blocks);

	*out = (struct sc_cost){.work_us = 1};
	out->owner_frac[seen->computes ? SC_OWN_COMPUTE : SC_OWN_MEMORY] = 1;
	/* A kernel that saturates memory needs no more SMs than that takes. */
	out->demand[SC_RES_SM] = seen->computes ? share : fmin(share, SC_MEMORY_SM_FRAC);
	out->demand[SC_RES_HBM] =
		seen->computes ? 0 : fmin(1, out->demand[SC_RES_SM] / SC_MEMORY_SM_FRAC);
	out->demand[SC_RES_L2] = device->interference.path_compute * share;
	out->waves = seen->blocks / (double)device->sm_count;
}

/* The reads and writes of memory for each byte on the link: a ring that sums reads what comes and
 * its own, and writes. */
#define MOVE_TRAFFIC 2.0
#define SUM_TRAFFIC 3.0
/* The share of the SMs that moves as much as the port can: NCCL's channels on 8 A100, H100, B200
 * are 18 to 22 %. */
#define PORT_SM_FRAC 0.2

/* The rate of a GPU's links one way, or of PCIe where it has none. */
static double links_gbps(const struct sc_device *device)
{
	return device->nvlink_links > 0 ? (double)device->nvlink_links * device->nvlink_link_gbps
					: device->pcie_gbps;
}

void sc_interfere_seen_collective(const struct sc_device *device,
				  const struct sc_interfere_seen *seen, struct sc_cost *out)
{
	const struct sc_interference_coef *c = &device->interference;
	double port = links_gbps(device);
	double by_sms = sm_share(device, seen->comm_blocks) / PORT_SM_FRAC;
	/* the rate is measured where the two are a pair */
	double load = seen->comm_us > 0 ? seen->comm_load : fmin(seen->comm_load, fmin(1, by_sms));

	*out = (struct sc_cost){.work_us = 1, .owner_frac[SC_OWN_COMM] = 1, .holds_sm = 1};
	out->demand[SC_RES_SM] = seen->comm_blocks > 0 ? fmin(SC_COLLECTIVE_MOST_SMS,
							      sm_share(device, seen->comm_blocks))
						       : 0;
	out->demand[SC_RES_L2] = fmin(1, c->path_comm * load);
	out->demand[SC_RES_HBM] =
		fmin(1, (seen->sums ? SUM_TRAFFIC : MOVE_TRAFFIC) * load * port / device->hbm_gbps);
}

struct sc_slowdowns sc_interfere_together(const struct sc_cost *kernel, const struct sc_cost *comm)
{
	const double sms = 1 - comm->demand[SC_RES_SM], want = kernel->demand[SC_RES_SM];
	const double cap = want > sms ? sms / want : 1;
	double level = cap, rest = 1;

	/* Both grow alike until a resource is full or the kernel has all of its SMs; then the
	 * collective grows alone. */
	for (int r = SC_RES_SM + 1; r < SC_N_RES; r++) {
		const double a = kernel->demand[r], b = comm->demand[r];

		if (a > 0 && b > 0 && a + b > 1)
			level = fmin(level, 1 / (a + b));
		if (b > 0)
			rest = fmin(rest, (1 - a * cap) / b);
	}
	return (struct sc_slowdowns){1 / level, 1 / (level < cap ? level : rest)};
}

static struct sc_slowdowns slowdowns_of(const struct sc_device *device,
					const struct sc_interfere_seen *seen)
{
	struct sc_cost kernel, comm;

	sc_interfere_seen_kernel(device, seen, &kernel);
	sc_interfere_seen_collective(device, seen, &comm);
	return sc_interfere_together(&kernel, &comm);
}

/* The time of one that runs beside the other for a part of its time, and as alone for the rest. */
static double with_other_us(double alone_us, double frac, double slowdown)
{
	return alone_us / (1 - frac + frac / slowdown);
}

static double start_us(const struct sc_device *device, const struct sc_interfere_seen *seen)
{
	const struct sc_interference_coef *c = &device->interference;

	return seen->beside_frac * (seen->sums ? c->start_sum_us : c->start_us);
}

double sc_interfere_seen_kernel_us(const struct sc_device *device,
				   const struct sc_interfere_seen *seen)
{
	return with_other_us(seen->alone_us, seen->beside_frac, slowdowns_of(device, seen).kernel) +
	       start_us(device, seen);
}

double sc_interfere_seen_alone_us(const struct sc_device *device,
				  const struct sc_interfere_seen *seen, double time_us)
{
	const double per_us =
		with_other_us(1, seen->beside_frac, slowdowns_of(device, seen).kernel);

	return fmax(0, time_us - start_us(device, seen)) / per_us;
}

double sc_interfere_seen_reserved_us(const struct sc_device *device,
				     const struct sc_interfere_seen *seen, double sm_share)
{
	double fewer, beside = 1;
	struct sc_cost kernel;

	sc_interfere_seen_kernel(device, seen, &kernel);
	fewer = fmax(1, kernel.demand[SC_RES_SM] / (1 - sm_share));
	if (seen->beside_frac > 0)
		beside = fmax(fewer, slowdowns_of(device, seen).kernel);
	return seen->alone_us / ((1 - seen->beside_frac) / fewer + seen->beside_frac / beside) +
	       start_us(device, seen);
}

/* The demand of the collective on copy engines. */
static void seen_copy(const struct sc_device *device, const struct sc_interfere_seen *seen,
		      struct sc_cost *out)
{
	sc_interfere_seen_collective(device, seen, out);
	out->demand[SC_RES_SM] = out->holds_sm = 0;
	out->demand[SC_RES_L2] = fmin(1, device->interference.path_copy * seen->comm_load);
}

double sc_interfere_seen_copied_us(const struct sc_device *device,
				   const struct sc_interfere_seen *seen)
{
	struct sc_cost kernel, copy;

	sc_interfere_seen_kernel(device, seen, &kernel);
	seen_copy(device, seen, &copy);
	return with_other_us(seen->alone_us, seen->beside_frac,
			     sc_interfere_together(&kernel, &copy).kernel);
}

double sc_interfere_seen_pair_us(const struct sc_device *device,
				 const struct sc_interfere_seen *seen)
{
	const struct sc_slowdowns slow = slowdowns_of(device, seen);
	const double kernel = seen->alone_us * slow.kernel, comm = seen->comm_us * slow.comm;

	/* The rest of the longer goes on as alone. */
	return kernel < comm ? kernel + seen->comm_us - kernel / slow.comm
			     : comm + seen->alone_us - comm / slow.kernel;
}

double sc_interfere_seen_collective_us(const struct sc_device *device,
				       const struct sc_interfere_seen *seen)
{
	return with_other_us(seen->alone_us, seen->beside_frac, slowdowns_of(device, seen).comm);
}

static struct sc_span span_of(const struct sc_transfer *t)
{
	int nodes = t->n_nodes > 1 ? t->n_nodes : 1;
	int even = (t->n_ranks + nodes - 1) / nodes;

	return (struct sc_span){t->n_ranks, nodes,
				t->max_ranks_per_node > 0 ? t->max_ranks_per_node : even};
}

double sc_interfere_port_share(const struct sc_device *device, double bytes, double n_ranks,
			       double comm_us)
{
	/* A rank's own part of nccl-tests' bytes stays in its place. */
	double moved = n_ranks > 1 ? bytes * (n_ranks - 1) / n_ranks : bytes;

	return sc_bytes_us(moved, links_gbps(device)) / comm_us;
}

static struct sc_interfere_seen local_copy(const struct sc_transfer *t)
{
	return (struct sc_interfere_seen){
		.comm_us = t->local_us,
		.comm_blocks = t->local_blocks,
		.comm_load = sc_interfere_port_share(t->device, t->shape.bytes, 1, t->local_us)};
}

double sc_transfer_sms(const struct sc_transfer *transfer)
{
	struct sc_span span = span_of(transfer);
	struct sc_collective_choice choice;

	if (transfer->n_ranks == 1)
		return transfer->local_blocks;
	if (transfer->channels > 0)
		return transfer->channels;
	sc_collective_cost(transfer->fabric, &transfer->shape, &span, &choice);
	return choice.channels;
}

/* The rate by the busier of a rank's port and its part of the NICs. */
static double moved_gbps(const struct sc_transfer *t, const struct sc_cost *cost)
{
	const struct sc_fabric *f = t->fabric;

	return fmax((cost->demand[SC_RES_LINK] + cost->demand[SC_RES_PCIE]) * port_gbps(f),
		    cost->demand[SC_RES_NIC] * f->nics_per_node * f->nic_gbps * f->net.eff);
}

/* Inside a node the SMs that the library takes feed the GPU's own port, and fewer do not (ConCCL);
 * slower or fewer links are fed by fewer SMs. Over NICs the library takes some for each: fewer do,
 * as long as each moves no more than a channel and its NIC can. */
static double fewest_sms(const struct sc_transfer *t, const struct sc_cost *cost)
{
	const struct sc_fabric *f = t->fabric;
	const double takes = cost->demand[SC_RES_SM] * (double)t->device->sm_count;
	const int n = t->shape.kind == SC_SEND_RECV ? 2 : t->n_ranks;
	const double own_gbps = (double)t->device->nvlink_links * t->device->nvlink_link_gbps;
	double channel;

	if (t->n_nodes <= 1 && own_gbps > 0 && !sc_is_over_pcie(f, n))
		return takes * fmin(1, sc_ring_link_share(f, n) * f->link_gbps / own_gbps);
	if (t->n_nodes <= 1 || !(f->link.search.channel_gbps > 0))
		return takes;
	channel = fmin(f->link.search.channel_gbps, f->nic_gbps * f->net.eff);
	return fmin(takes, fmax(1, moved_gbps(t, cost) / channel));
}

/* A collective keeps so much of its rate between nodes as its SMs move while kernels run. */
static void find_beside(const struct sc_transfer *t, struct sc_cost *cost)
{
	const double channels = cost->demand[SC_RES_SM] * (double)t->device->sm_count;
	const double most = t->device->interference.channel_gbps * channels;
	const double gbps = moved_gbps(t, cost);

	cost->beside_frac = t->n_nodes > 1 && most > 0 && most < gbps ? most / gbps : 0;
}

void sc_interfere_keep_sms(const struct sc_transfer *transfer, double sms, struct sc_cost *cost)
{
	const double all = (double)transfer->device->sm_count, fewest = fewest_sms(transfer, cost);
	const double kept = sms > 0 ? sms : ceil(fewest), slow = fmax(1, fewest / kept);

	if (kept >= cost->demand[SC_RES_SM] * all)
		return; /* the collective takes no more */
	cost->work_us *= slow;
	for (int r = SC_RES_SM + 1; r < SC_N_RES; r++)
		cost->demand[r] /= slow;
	cost->demand[SC_RES_SM] = kept / all;
	find_beside(transfer, cost);
}

/* Takes as many channels as asked for: fewer than feed the links are slower, more only hold SMs. */
static void take_channels(const struct sc_transfer *transfer, struct sc_cost *cost)
{
	const double all = (double)transfer->device->sm_count;

	if (!(transfer->channels > 0))
		return;
	sc_interfere_keep_sms(transfer, transfer->channels, cost);
	cost->demand[SC_RES_SM] = fmin(SC_COLLECTIVE_MOST_SMS, transfer->channels / all);
	find_beside(transfer, cost);
}

void sc_interfere_collective(const struct sc_transfer *transfer, double sms, double given_us,
			     struct sc_cost *out)
{
	struct sc_span span = span_of(transfer);

	if (transfer->n_ranks == 1) {
		const struct sc_interfere_seen seen = local_copy(transfer);

		sc_interfere_seen_collective(transfer->device, &seen, out);
		scale(out, transfer->local_us);
	} else {
		*out = sc_collective_cost(transfer->fabric, &transfer->shape, &span, NULL);
		load_collective(transfer->device, transfer->fabric, out);
		if (sc_cost_alone_us(out) > 0)
			out->latency_us += transfer->call_us;
		out->work_us /= transfer->eff > 0 ? transfer->eff : 1;
		find_beside(transfer, out);
		take_channels(transfer, out);
	}
	if (given_us > 0)
		scale(out, given_us / sc_cost_alone_us(out));
	if (sms > 0)
		sc_interfere_keep_sms(transfer, sms, out);
}

void sc_interfere_relieve(const struct sc_device *device, double kept_sms, double channels,
			  struct sc_cost *comm)
{
	if (channels > 0)
		comm->demand[SC_RES_L2] *=
			1 - device->interference.kept_relief * fmin(1, kept_sms / channels);
}

const char *sc_interfere_copy_unfit(const struct sc_transfer *transfer)
{
	static const unsigned moves = 1 << SC_ALL_GATHER | 1 << SC_ALL_TO_ALL | 1 << SC_SEND_RECV |
				      1 << SC_GATHER | 1 << SC_SCATTER;

	if (transfer->n_nodes > 1)
		return "copy engines reach no further than one node";
	return moves & 1u << transfer->shape.kind
		       ? NULL
		       : "copy engines do not add, nor send to several at once: they move gathers, "
			 "scatters and all-to-alls";
}

/* The bytes that a rank receives: nccl-tests' bytes are those of all ranks together. */
static double received_bytes(const struct sc_transfer *t)
{
	double others = (t->n_ranks - 1.0) / t->n_ranks * t->shape.bytes;

	if (t->shape.kind == SC_SEND_RECV)
		return t->shape.bytes;
	if (t->shape.kind == SC_REDUCE)
		return (t->n_ranks - 1) * t->shape.bytes;
	return t->shape.kind == SC_ALL_REDUCE ? 2 * others : others;
}

void sc_interfere_copy(const struct sc_transfer *transfer, double n_pieces, double n_copies,
		       struct sc_cost *out)
{
	const struct sc_interference_coef *c = &transfer->device->interference;
	const struct sc_copies copies = {.bytes = received_bytes(transfer) / n_pieces,
					 .n = n_copies,
					 .each_us = c->copy_us,
					 .speed = c->copy_speed};

	if (transfer->n_ranks == 1) {
		const struct sc_interfere_seen seen = local_copy(transfer);

		seen_copy(transfer->device, &seen, out);
		scale(out, transfer->local_us);
		return;
	}
	*out = sc_copies_cost(transfer->fabric, &copies, transfer->n_ranks);
	out->work_us /= transfer->eff > 0 ? transfer->eff : 1;
	out->demand[SC_RES_L2] = c->path_copy;
}

void sc_interfere_adders(const struct sc_transfer *transfer, struct sc_cost *cost)
{
	const struct sc_fabric *f = transfer->fabric;

	if (transfer->shape.kind == SC_ALL_REDUCE && f->topology == SC_LINK_SWITCH &&
	    f->link.nvls_eff > 0 && transfer->n_ranks >= SC_NVLS_MIN_RANKS)
		cost->work_us =
			sc_bytes_us(transfer->shape.bytes, sc_nvls_gbps(f, transfer->n_ranks));
}

void sc_interfere_reduce(const struct sc_transfer *transfer, struct sc_cost *out)
{
	const struct sc_collective_shape *shape = &transfer->shape;
	/* Each rank adds its part, or one rank all of it. */
	double sum = shape->kind == SC_REDUCE ? shape->bytes : shape->bytes / transfer->n_ranks;
	struct sc_op op = {.kind = SC_OP_ROWWISE, .dtype = shape->dtype};

	*out = (struct sc_cost){.owner_frac[SC_OWN_COMM] = 1};
	if (shape->kind != SC_REDUCE_SCATTER && shape->kind != SC_ALL_REDUCE &&
	    shape->kind != SC_REDUCE)
		return;
	op.u.rowwise = (struct sc_rowwise_shape){
		.read_bytes = sum * transfer->n_ranks,
		.write_bytes = sum,
		.rows = transfer->n_ranks,
		.cols = sum / sc_dtype_bytes(shape->dtype),
		.n_kernels = 1,
	};
	sc_op_cost(transfer->device, &op, out);
	sc_interfere_load_kernel(transfer->device, out);
}
