/* Files of cluster.algorithms: collectives that they fit take the walk's time, others the
 * library's, and it is said. */
#include <unistd.h>

#include "base/units.h"
#include "models/collective/collective_files.h"
#include "models/msccl/msccl.h"
#include "runner.h"

#define MIB SC_BYTES_PER_MIB
enum { N = 8 };

static struct sc_arena arena;
static char path[] = "/tmp/stepcast-files-XXXXXX";
static struct sc_request *request;
static struct sc_fabric fabric;
static struct sc_fabric_walk walk;

/* A ring all-reduce of N ranks for sizes up to 64 MiB, named for all-reduces. */
static void setup(void)
{
	struct sc_strbuf text = {0};
	struct sc_msccl algo;
	FILE *out;

	sc_arena_init(&arena, 1 << 16);
	sc_msccl_build(&(struct sc_msccl_recipe){.kind = SC_MSCCL_RING_ALL_REDUCE,
						 .proto = SC_PROTO_SIMPLE,
						 .n_gpus = N,
						 .gpus_per_node = N,
						 .channels = 1,
						 .instances = 4},
		       &arena, &algo);
	algo.max_bytes = 64 * MIB;
	sc_msccl_write(&algo, &text);
	out = fdopen(mkstemp(path), "w");
	ck_assert_ptr_nonnull(out);
	fputs(sc_strbuf_get(&text), out);
	ck_assert_int_eq(fclose(out), 0);
	sc_strbuf_release(&text);
	request = sc_arena_calloc(&arena, 1, sizeof(*request));
	sc_config_init(&request->config);
	request->config.cluster.algorithms.all_reduce = path;
	walk = (struct sc_fabric_walk){.port_gbps = 200, .local_gbps = 100};
	walk.protos[SC_PROTO_SIMPLE] = (struct sc_fabric_walk_proto){.block_gbps = 20,
								     .step_us = 2,
								     .base_us = 10,
								     .tile_bytes = 1 << 21,
								     .wire_factor = 1};
	fabric = (struct sc_fabric){.link_gbps = 300,
				    .pcie_gbps = 32,
				    .nic_gbps = 25,
				    .nics_per_node = 8,
				    .gpus_per_node = N,
				    .link_gpus = N,
				    .sm_arch = 80,
				    .sm_count = 108,
				    .hbm_gbps = 2000,
				    .net.eff = 1,
				    .net.tree_eff = 1,
				    .net.a2a_eff = 1,
				    .link.eff = 0.8,
				    .link.p2p_eff = 1,
				    .link.search = {20, 240, 48},
				    .link.copy_gbps = 500,
				    .host_gpus = N,

				    .walk = &walk};
}

static void teardown(void)
{
	unlink(path);
	strcpy(path, "/tmp/stepcast-files-XXXXXX");
	sc_arena_release(&arena);
}

static struct sc_cost cost_of(const struct sc_fabric *f, enum sc_collective kind, double bytes,
			      int nodes, struct sc_collective_choice *choice)
{
	struct sc_collective_shape shape = {.kind = kind, .bytes = bytes, .dtype = SC_FP32};
	struct sc_span span = {N * nodes, nodes, N};

	return sc_collective_cost(f, &shape, &span, choice);
}

FIXTURE(setup, teardown)

TEST(what_fits_takes_the_walk)
{
	struct sc_fabric with = fabric;
	struct sc_collective_choice choice;
	struct sc_msccl algo;
	struct sc_err err = {0};
	double last = 0;

	ck_assert_msg(sc_collective_files_load(request, &arena, &with, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sc_msccl_load(path, &arena, &algo, &err), 0);
	for (double bytes = 4096; bytes <= 64 * MIB; bytes *= 4) {
		struct sc_cost cost = cost_of(&with, SC_ALL_REDUCE, bytes, 1, &choice);
		struct sc_msccl_time time;

		ck_assert_int_eq(sc_msccl_walk(&algo, &(struct sc_msccl_place){&fabric, N}, bytes,
					       &time, &err),
				 0);
		ck_assert_double_eq_tol(sc_cost_alone_us(&cost) / time.total_us, 1, 1e-9);
		ck_assert_int_eq(choice.algo, SC_ALGO_FILE);
		ck_assert_int_eq(choice.channels, 4);
		ck_assert_double_ge(sc_cost_alone_us(&cost), last);
		for (int r = 0; r < SC_N_RES; r++)
			ck_assert(cost.demand[r] >= 0 && cost.demand[r] <= 1);
		last = sc_cost_alone_us(&cost);
	}
}

/* The port carries 2 (n - 1) / n of the bytes while the walk's work lasts. */
TEST(demands_are_the_files_bytes)
{
	struct sc_fabric with = fabric;
	struct sc_err err = {0};
	struct sc_cost cost;
	double bytes = 64 * MIB;

	ck_assert_int_eq(sc_collective_files_load(request, &arena, &with, &err), 0);
	cost = cost_of(&with, SC_ALL_REDUCE, bytes, 1, NULL);
	ck_assert_double_eq_tol(cost.demand[SC_RES_LINK] * cost.work_us /
					sc_bytes_us(2 * bytes * (N - 1) / N, 300 * 0.8),
				1, 1e-9);
	ck_assert_double_eq_tol(cost.demand[SC_RES_SM], 4.0 / 108, 1e-9);
	ck_assert_double_eq(cost.demand[SC_RES_NIC], 0);
}

LOOP_TEST(what_does_not_fit_is_said, 3)
{
	static const struct {
		enum sc_collective kind;
		double mib;
		int nodes;
		const char *why;
	} CASES[] = {
		{SC_ALL_REDUCE, 65, 1, "more than its maxBytes"},
		{SC_ALL_REDUCE, 1, 2, "it is of 8 GPUs, and some have 16 ranks"},
		{SC_ALL_GATHER, 1, 1, "has no effect"},
	};
	struct sc_warnings warnings = {.n = 0};
	struct sc_fabric with = fabric;
	struct sc_collective_choice choice;
	struct sc_err err = {0};
	struct sc_cost a, b;

	ck_assert_int_eq(sc_collective_files_load(request, &arena, &with, &err), 0);
	a = cost_of(&with, CASES[_i].kind, CASES[_i].mib * MIB, CASES[_i].nodes, &choice);
	b = cost_of(&fabric, CASES[_i].kind, CASES[_i].mib * MIB, CASES[_i].nodes, NULL);
	ck_assert_double_eq(sc_cost_alone_us(&a), sc_cost_alone_us(&b));
	ck_assert_int_ne(choice.algo, SC_ALGO_FILE);
	sc_collective_files_warn(&with, &warnings);
	ck_assert_uint_eq(warnings.n, 1);
	ck_assert_msg(strstr(warnings.text[0], CASES[_i].why) != NULL, "%s", warnings.text[0]);
}

TEST(what_cannot_be_is_refused)
{
	struct sc_err err = {0};

	request->config.cluster.algorithms.all_gather = path;
	ck_assert_int_eq(sc_collective_files_load(request, &arena, &fabric, &err),
			 -(int)SC_ECONFLICT);
	ck_assert_msg(strstr(err.text, "is an algorithm of allreduce") != NULL, "%s", err.text);
	request->config.cluster.algorithms.all_gather = NULL;
	err = (struct sc_err){0};
	fabric.walk = NULL;
	ck_assert_int_eq(sc_collective_files_load(request, &arena, &fabric, &err),
			 -(int)SC_EUNSUPPORTED);
	ck_assert_ptr_null(fabric.files);
}
