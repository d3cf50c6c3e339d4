/* Algorithm files: the common ones are proved, wrong ones named, times obey hand-computed limits.
 */
#include "arena_fixture.h"
#include "base/units.h"
#include "models/msccl/msccl.h"
#include "runner.h"

static struct sc_msccl_recipe recipe_of(enum sc_msccl_kind kind, int n, int channels, int instances)
{
	bool by_node = kind >= SC_MSCCL_TWO_STEP_ALL_TO_ALL;

	return (struct sc_msccl_recipe){.kind = kind,
					.proto = SC_PROTO_SIMPLE,
					.n_gpus = n,
					.gpus_per_node = by_node ? n / 2 : n,
					.channels = channels,
					.instances = instances};
}

static struct sc_msccl built(enum sc_msccl_kind kind, int n, int channels, int instances)
{
	struct sc_msccl_recipe recipe = recipe_of(kind, n, channels, instances);
	struct sc_msccl algo;

	sc_msccl_build(&recipe, &arena, &algo);
	return algo;
}

static const struct {
	int n, channels, instances;
} SIZES[] = {{2, 1, 1}, {4, 1, 3}, {8, 2, 1}, {8, 4, 2}, {6, 3, 2}};
enum { N_SIZES = sizeof(SIZES) / sizeof(SIZES[0]) };

FIXTURE(arena_begin, arena_end)

/* What MSCCL's executor asks for: a step that waits for nothing has no wait before it, and steps
 * that others wait for say so in the file. */
static void check_waits(const struct sc_msccl *algo, const char *text)
{
	bool *waited = sc_arena_calloc(&arena, algo->n_steps + 1, sizeof(*waited));
	size_t n_waited = 0, n_said = 0;

	for (int g = 0; g < algo->n_gpus; g++)
		for (size_t t = algo->gpus[g].first; t < algo->gpus[g].first + algo->gpus[g].n; t++)
			for (size_t s = algo->tbs[t].first; s < algo->tbs[t].first + algo->tbs[t].n;
			     s++) {
				const struct sc_msccl_step *step = &algo->steps[s];
				size_t at;

				if (step->dep_tb < 0) {
					ck_assert(s == algo->tbs[t].first ||
						  step[-1].op != SC_MSCCL_NOP);
					continue;
				}
				at = algo->tbs[algo->gpus[g].first + (size_t)step->dep_tb].first +
				     (size_t)step->dep_step;
				n_waited += !waited[at];
				waited[at] = true;
			}
	for (; (text = strstr(text, "hasdep=\"1\"")); text++)
		n_said++;
	ck_assert_uint_eq(n_said, n_waited);
}

/* Every recipe gives what its collective promises, and so does what is written of it. */
LOOP_TEST(recipes_are_proved, SC_MSCCL_N_KINDS)
{
	for (int i = 0; i < N_SIZES; i++) {
		bool one = _i >= SC_MSCCL_PAIRS_ALL_GATHER;
		struct sc_msccl_recipe recipe =
			recipe_of((enum sc_msccl_kind)_i, SIZES[i].n, one ? 1 : SIZES[i].channels,
				  _i == SC_MSCCL_TWO_STEP_ALL_TO_ALL ? 1 : SIZES[i].instances);
		struct sc_strbuf text = {0};
		struct sc_msccl again, algo;
		struct sc_err err = {0};

		recipe.proto = (enum sc_proto)(i % SC_N_PROTOS); /* all pairs have two forms */
		if (sc_msccl_recipe_check(&recipe, NULL)) {
			ck_assert_int_eq(SIZES[i].n, 2);
			continue;
		}
		sc_msccl_build(&recipe, &arena, &algo);
		ck_assert_msg(sc_msccl_check(&algo, &err) == 0, "%s", err.text);
		sc_msccl_write(&algo, &text);
		ck_assert_msg(sc_msccl_parse(&(struct sc_source){sc_strbuf_get(&text), text.n, "x"},
					     &arena, &again, &err) == 0,
			      "%u: %s", err.line, err.text);
		ck_assert_msg(sc_msccl_check(&again, &err) == 0, "%s", err.text);
		ck_assert_uint_eq(again.n_steps, algo.n_steps);
		check_waits(&algo, sc_strbuf_get(&text));
		ck_assert_int_eq(memcmp(again.tbs[1].send == algo.tbs[1].send ? "y" : "n", "y", 1),
				 0);
		sc_strbuf_release(&text);
	}
}

/* One step changed: each fault is found, and named where it is. */
TEST(faults_are_named)
{
	static const struct {
		size_t step;
		int field, value; /* 0: op, 1: src_off, 2: dst_off, 3: dep_step 4: count */
		const char *part;
	} FAULTS[] = {
		{1, 0, SC_MSCCL_RECV, ""},
		{6, 0, SC_MSCCL_RECV_REDUCE_COPY, "is in the sum already"},
		{3, 1, 0, "different chunks"},
		{0, 1, 3, "different chunks"},
		{5, 2, 2, "is not written"},
		{6, 3, 6, "never"},
	};

	for (size_t i = 0; i < sizeof(FAULTS) / sizeof(FAULTS[0]); i++) {
		struct sc_msccl algo = built(SC_MSCCL_RING_ALL_REDUCE, 4, 1, 1);
		struct sc_msccl_step *step = &algo.steps[FAULTS[i].step];
		struct sc_err err = {0};

		if (FAULTS[i].field == 0)
			step->op = (unsigned char)FAULTS[i].value;
		if (FAULTS[i].field == 1)
			step->src_off = FAULTS[i].value;
		if (FAULTS[i].field == 2)
			step->dst_off = FAULTS[i].value;
		if (FAULTS[i].field == 3) {
			step->dep_tb = 0;
			step->dep_step = FAULTS[i].value;
		}
		ck_assert_int_ne(sc_msccl_check(&algo, &err), 0);
		ck_assert_msg(strstr(err.text, "rank ") && strstr(err.text, FAULTS[i].part),
			      "%zu: %s", i, err.text);
	}
}

static struct sc_fabric_walk walk_of(double block, double link, double port)
{
	struct sc_fabric_walk walk = {.link_gbps = link, .port_gbps = port, .local_gbps = 1e6};

	for (int p = 0; p < SC_N_PROTOS; p++)
		walk.protos[p] = (struct sc_fabric_walk_proto){
			.block_gbps = block, .tile_bytes = 1 << 21, .wire_factor = 1};
	return walk;
}

static double walked(const struct sc_msccl *algo, const struct sc_fabric_walk *walk, double bytes)
{
	struct sc_fabric fabric = {.link_gbps = 1e6,
				   .link.eff = 1,
				   .link_gpus = algo->n_gpus,
				   .gpus_per_node = algo->n_gpus,
				   .nics_per_node = 1,
				   .nic_gbps = 25,
				   .walk = walk};
	struct sc_msccl_time time;
	struct sc_err err = {0};

	ck_assert_msg(sc_msccl_walk(algo, &(struct sc_msccl_place){&fabric, fabric.gpus_per_node},
				    bytes, &time, &err) == 0,
		      "%s", err.text);
	return time.total_us;
}

#define GIB SC_BYTES_PER_GIB

/* Bytes from one GPU to another, of `bytes` in all. */
static double sent(const struct sc_msccl *algo, int from, int to, double bytes)
{
	double chunks = 0;

	for (size_t t = 0; t < algo->gpus[from].n; t++) {
		const struct sc_msccl_tb *tb = &algo->tbs[algo->gpus[from].first + t];

		for (size_t s = tb->first; s < tb->first + tb->n && tb->send == to; s++)
			if (sc_msccl_sends((enum sc_msccl_op)algo->steps[s].op))
				chunks += algo->steps[s].count;
	}
	return chunks * bytes / algo->n_chunks;
}

/* Steps that meet are those of the collective: 2(n-1) in a ring; over nodes each rank's network
 * carries its part alone, 2(N-1)/N S/p. */
TEST(steps_and_bytes)
{
	struct sc_msccl ring = built(SC_MSCCL_RING_ALL_REDUCE, 16, 1, 1);
	struct sc_msccl nodes = built(SC_MSCCL_HIERARCHICAL_ALL_REDUCE, 16, 1, 1);
	int received = 0;

	for (size_t s = 0; s < ring.tbs[0].n; s++)
		received += sc_msccl_receives((enum sc_msccl_op)ring.steps[s].op);
	ck_assert_int_eq(received, 2 * 15);
	for (int from = 0; from < 16; from++) {
		double sum = 0, net = sent(&nodes, from, (from + 8) % 16, GIB);

		for (int to = 0; to < 16; to++) {
			sum += sent(&nodes, from, to, GIB);
		}
		ck_assert_double_eq_tol(net, GIB / 8, 1);
		ck_assert_double_eq_tol(sum - net, 2 * GIB * 7 / 8, 1);
	}
}

/* Large sizes, one channel: unfused 2(n-1) S/n / r, fused S / r (reference: MSCCL walk). */
TEST(ring_limits)
{
	struct sc_fabric_walk walk = walk_of(20, 0, 0);
	struct sc_msccl unfused = built(SC_MSCCL_RING_ALL_GATHER, 8, 1, 1);
	struct sc_msccl fused = built(SC_MSCCL_RING_ALL_GATHER_FUSED, 8, 1, 1);

	ck_assert_double_eq_tol(walked(&unfused, &walk, GIB) / sc_bytes_us(14 * GIB / 8, 20), 1,
				0.05);
	ck_assert_double_eq_tol(walked(&fused, &walk, GIB) / sc_bytes_us(GIB, 20), 1, 0.05);
}

/* Instances halve the time until a port binds, then change nothing. */
TEST(instances_until_a_cap)
{
	struct sc_fabric_walk walk = walk_of(20, 0, 1000);
	struct sc_msccl one = built(SC_MSCCL_PAIRS_ALL_GATHER, 8, 1, 1);
	struct sc_msccl two = built(SC_MSCCL_PAIRS_ALL_GATHER, 8, 1, 2);
	struct sc_msccl four = built(SC_MSCCL_PAIRS_ALL_GATHER, 8, 1, 4);

	ck_assert_double_eq_tol(walked(&one, &walk, GIB) / sc_bytes_us(2 * GIB / 8, 20), 1, 0.05);
	ck_assert_double_eq_tol(walked(&one, &walk, GIB) / walked(&two, &walk, GIB), 2, 0.1);
	walk.port_gbps = 70;
	ck_assert_double_eq_tol(walked(&two, &walk, GIB) / sc_bytes_us(7 * GIB / 8, 70), 1, 0.05);
	ck_assert_double_eq_tol(walked(&two, &walk, GIB) / walked(&four, &walk, GIB), 1, 0.05);
}

/* A walk's rates are at most those of its GPUs' links; all that goes from one GPU to another shares
 * its link. */
LOOP_TEST(walks_keep_to_the_links, 4)
{
	/* a port slower than the profile's, a link of a mesh, PCIe beyond pairs, and alone */
	static const struct {
		double link_gbps;
		enum sc_link_topology topology;
		int link_gpus;
		double gbps;
	} NODES[] = {{200, SC_LINK_SWITCH, 4, 200 * 0.8},
		     {200, SC_LINK_MESH, 4, 200 * 0.8 / 3},
		     {200, SC_LINK_SWITCH, 2, 32 * 0.75},
		     {0, SC_LINK_SWITCH, 4, 32 * 0.75}};
	struct sc_fabric_walk walk = walk_of(100, 0, 1000);
	struct sc_fabric fabric = {.link_gbps = NODES[_i].link_gbps,
				   .link.eff = 0.8,
				   .link_gpus = NODES[_i].link_gpus,
				   .topology = NODES[_i].topology,
				   .pcie_gbps = 32,
				   .ramp = {.pcie_eff = 0.75},
				   .gpus_per_node = 4,
				   .walk = &walk};
	struct sc_msccl_time time;
	struct sc_msccl ring;

	sc_msccl_build(&(struct sc_msccl_recipe){.kind = SC_MSCCL_RING_ALL_REDUCE,
						 .proto = SC_PROTO_SIMPLE,
						 .n_gpus = 4,
						 .gpus_per_node = 4,
						 .channels = 4,
						 .instances = 4},
		       &arena, &ring);
	ck_assert_int_eq(
		sc_msccl_walk(&ring, &(struct sc_msccl_place){&fabric, 4}, GIB, &time, NULL), 0);
	ck_assert_double_eq_tol(time.total_us / sc_bytes_us(1.5 * GIB, NODES[_i].gbps), 1, 0.05);
}

/* Of every recipe: time rises with size, falls with rates, and no port carries more than it can. */
LOOP_TEST(walks_are_monotone, SC_MSCCL_N_KINDS)
{
	struct sc_msccl algo = built((enum sc_msccl_kind)_i, 8, 1, 1);
	struct sc_fabric_walk slow = walk_of(10, 15, 50), fast = walk_of(20, 15, 50);
	double last = 0;

	for (double bytes = 1024; bytes < 8 * GIB; bytes *= 4) {
		double us = walked(&algo, &slow, bytes);

		ck_assert(us >= last && !isinf(us));
		ck_assert(walked(&algo, &fast, bytes) <= us * (1 + 1e-9));
		if (_i < SC_MSCCL_TWO_STEP_ALL_TO_ALL)
			ck_assert(us >= sc_bytes_us(bytes * 7 / 8, 50));
		last = us;
	}
}

/* Channels and instances cut what a link carries, they do not change it (but of trees, whose
 * instances have other heads). */
LOOP_TEST(links_carry_the_same, SC_MSCCL_TREE_ALL_REDUCE)
{
	int channels = _i <= SC_MSCCL_RING_ALL_REDUCE ? 4 : 1;
	int instances = _i == SC_MSCCL_TWO_STEP_ALL_TO_ALL ? 1 : 3;
	struct sc_msccl one = built((enum sc_msccl_kind)_i, 8, 1, 1);
	struct sc_msccl many = built((enum sc_msccl_kind)_i, 8, channels, instances);

	for (int from = 0; from < 8; from++)
		for (int to = 0; to < 8; to++)
			ck_assert_double_eq_tol(sent(&one, from, to, GIB),
						sent(&many, from, to, GIB), 1e-3);
}

/* A wrong next is found; between nodes as many NICs as GPUs carry it, so large sizes take a part of
 * what one would. */
TEST(next_uses_all_nics)
{
	struct sc_fabric_walk walk = walk_of(100, 0, 200);
	struct sc_fabric fabric = {
		.gpus_per_node = 4, .nics_per_node = 4, .nic_gbps = 5, .net.eff = 1, .walk = &walk};
	struct sc_msccl algo;
	struct sc_msccl_time time;
	struct sc_err err = {0};

	sc_msccl_build(&(struct sc_msccl_recipe){.kind = SC_MSCCL_ALL_TO_NEXT,
						 .proto = SC_PROTO_SIMPLE,
						 .n_gpus = 12,
						 .gpus_per_node = 4,
						 .channels = 1,
						 .instances = 1},
		       &arena, &algo);
	ck_assert_msg(sc_msccl_check(&algo, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sc_msccl_walk(&algo,
				       &(struct sc_msccl_place){&fabric, fabric.gpus_per_node}, GIB,
				       &time, &err),
			 0);
	ck_assert_double_lt(time.total_us, sc_bytes_us(GIB, 5) / 3.5);
	ck_assert_double_gt(time.total_us, sc_bytes_us(GIB, 4 * 5) * (1 - 1e-9));
	for (size_t s = 0; s < algo.n_steps; s++)
		if (algo.steps[s].op == SC_MSCCL_SEND && algo.steps[s].src_off == 1)
			algo.steps[s].src_off = 2;
	ck_assert_int_ne(sc_msccl_check(&algo, &err), 0);
	ck_assert_msg(strstr(err.text, "wrong") != NULL, "%s", err.text);
}

/* An exchange between nodes waits for the buffer of each peer on another one, at most so long;
 * others do not. */
LOOP_TEST(peers_buffers_fill, 2)
{
	const enum sc_msccl_kind kind = _i ? SC_MSCCL_PAIRS_ALL_GATHER : SC_MSCCL_PAIRS_ALL_TO_ALL;
	struct sc_fabric_walk walk = walk_of(100, 0, 200);
	struct sc_fabric none = {
		.gpus_per_node = 4, .nics_per_node = 4, .nic_gbps = 5, .net.eff = 1, .walk = &walk};
	struct sc_fabric f = none;
	struct sc_msccl algo = built(kind, 8, 1, 1);

	f.ramp.peer_fill_us = 10;
	for (double bytes = 1024; bytes < GIB; bytes *= 8) {
		struct sc_msccl_time plain, filled;

		ck_assert_int_eq(sc_msccl_walk(&algo, &(struct sc_msccl_place){&none, 4}, bytes,
					       &plain, NULL),
				 0);
		ck_assert_int_eq(
			sc_msccl_walk(&algo, &(struct sc_msccl_place){&f, 4}, bytes, &filled, NULL),
			0);
		if (_i)
			ck_assert_double_eq(filled.total_us, plain.total_us);
		else
			ck_assert(filled.total_us > plain.total_us &&
				  filled.total_us <= plain.total_us + 4 * 10 + 1e-6);
	}
}

/* Eight chunks a step are one primitive, and then eight in a connection of two: both sides send
 * first. */
TEST(large_steps_may_never_end)
{
	struct sc_fabric_walk walk = walk_of(10, 15, 50);
	struct sc_msccl_step steps[4] = {{.op = SC_MSCCL_SEND},
					 {.op = SC_MSCCL_RECV},
					 {.op = SC_MSCCL_SEND},
					 {.op = SC_MSCCL_RECV}};
	struct sc_msccl_tb tbs[2] = {{1, 1, 0, 0, 2, 0}, {0, 0, 0, 2, 2, 0}};
	struct sc_msccl_gpu gpus[2] = {{{0, 16, 0}, 0, 1, 0}, {{0, 16, 0}, 1, 1, 0}};
	struct sc_msccl swap = {.file = "",
				.coll = SC_MSCCL_ALL_GATHER,
				.coll_name = "allgather",
				.proto = SC_PROTO_SIMPLE,
				.n_gpus = 2,
				.n_channels = 1,
				.n_chunks = 16,
				.in_place = true,
				.gpus = gpus,
				.tbs = tbs,
				.steps = steps,
				.n_tbs = 2,
				.n_steps = 4};
	struct sc_err err = {0};

	for (int s = 0; s < 4; s++) {
		steps[s].src = steps[s].dst = SC_MSCCL_OUTPUT;
		steps[s].src_off = steps[s].dst_off = s == 0 || s == 3 ? 0 : 8;
		steps[s].count = 8;
		steps[s].dep_tb = steps[s].dep_step = -1;
	}
	ck_assert_msg(sc_msccl_check(&swap, &err) == 0, "%s", err.text);
	ck_assert(!isinf(walked(&swap, &walk, SC_BYTES_PER_MIB)));
	ck_assert(isinf(walked(&swap, &walk, 64 * SC_BYTES_PER_MIB)));
}

/* Of sums over any ranks equal ones are known again: those that follow each other, round the last
 * one too, and others. */
TEST(sums_of_all_orders)
{
	struct sc_msccl algo = built(SC_MSCCL_RING_ALL_REDUCE, many_cases() ? 130 : 66, 1, 1);
	struct sc_err err = {0};

	ck_assert_msg(sc_msccl_check(&algo, &err) == 0, "%s", err.text);
	for (int n = 2; n <= (many_cases() ? 70 : 36); n += 17) {
		algo = built(SC_MSCCL_PAIRS_ALL_REDUCE, n, 1, 1);
		ck_assert_msg(sc_msccl_check(&algo, &err) == 0, "%s", err.text);
		for (size_t s = algo.n_steps; s-- > 0;) {
			struct sc_msccl_step *step = &algo.steps[s];

			if (step->op != SC_MSCCL_REDUCE || n == 2)
				continue;
			step->src_off += step->src_off < n ? n : -n; /* one peer's twice */
			ck_assert_int_ne(sc_msccl_check(&algo, &err), 0);
			ck_assert_msg(strstr(err.text, "is wrong") != NULL, "%s", err.text);
			break;
		}
		err = (struct sc_err){0};
	}
}
