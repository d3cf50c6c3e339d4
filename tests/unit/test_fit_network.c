/* Networks as the columns intra and inter of a table tell of them. */
#include "base/rng.h"
#include "base/strbuf.h"
#include "models/fit/fit.h"
#include "runner.h"

static struct sc_arena arena;
static struct sc_err err;

static void setup(void)
{
	sc_arena_init(&arena, 1 << 16);
	err = (struct sc_err){.code = SC_OK};
}

static void teardown(void)
{
	sc_arena_release(&arena);
}

static const char *one_of(struct sc_rng *rng, const char *const *words, size_t n)
{
	return words[sc_rng_below(rng, n)];
}

#define ONE_OF(rng, words) one_of(rng, words, sizeof(words) / sizeof((words)[0]))

/* A machine as intra and inter may tell of it, or not. */
static void append_machine(struct sc_rng *rng, struct sc_strbuf *out)
{
	static const char *const devices[] = {
		"v100-sxm-16gb", "a100-pcie-40gb", "h100-sxm-80gb", "gb200",
		"l40s",          "mi300x",         "mi250x-gcd",    "gb10"};
	static const char *const intras[] = {"NVLink2_direct_mesh",
					     "NVLink3_NVSwitch",
					     "NVLink5_NVL72",
					     "NVLink4_NVL2",
					     "NVLink_bridge",
					     "xGMI_full_mesh_7x64GB/s",
					     "PCIe5",
					     "none",
					     "NVLink9",
					     "",
					     "mesh of 3"};
	static const char *const nets[] = {"IB",  "RoCE",      "EFA",      "Slingshot11",
					   "TCP", "HDR200_IB", "IB_SHARP", "unheard"};
	static const char *const inters[] = {
		"none", "NVLink5_NVL72",  "NVLink4_NVSwitch", "xGMI", "0x0Gb_IB",
		"",     "99999x100Gb_IB", "4x99999999Gb_IB",  "x"};
	int counts[] = {1, 2, 4, 8, 16}, nodes = counts[sc_rng_below(rng, 5)];
	int gpus = counts[sc_rng_below(rng, 5)], nics = counts[sc_rng_below(rng, 5)];
	int ranks = nodes * (1 + (int)sc_rng_below(rng, (uint64_t)gpus));

	if (ranks < 2)
		ranks = gpus = 2;
	sc_strbuf_printf(out, "%s,%d,%d,%d,%s,", ONE_OF(rng, devices), ranks, nodes, gpus,
			 ONE_OF(rng, intras));
	if (sc_rng_below(rng, 3) == 0)
		sc_strbuf_append(out, ONE_OF(rng, inters));
	else if (sc_rng_below(rng, 2))
		sc_strbuf_printf(out, "%dx%dGb_%s", nics, 100 * nics, ONE_OF(rng, nets));
	else
		sc_strbuf_printf(out, "%s_%dx%dGb", ONE_OF(rng, nets), nics, 50 * nics);
}

FIXTURE(setup, teardown)

/* Whatever a table says of its network, it is a network: with a warning, never refused, and never
 * faster for more bytes. */
TEST(any_network_is_one)
{
	enum { SIZES = 8 };
	static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter",
					    "broadcast",  "all_to_all", "send_recv"};
	struct sc_strbuf machine = {0}, text = {0};
	struct sc_csv csv;
	struct sc_rng rng;
	struct sc_fit_guess *guesses;
	size_t n = SIZES * (size_t)n_cases(1000), *rows;

	sc_rng_init(&rng, 15);
	sc_strbuf_append(&text, "device,ranks,nodes,gpus_per_node,intra,inter,collective,bytes,"
				"time_us\n");
	for (size_t i = 0; i < n; i += SIZES) {
		const char *kind = ONE_OF(&rng, kinds);

		sc_strbuf_clear(&machine);
		append_machine(&rng, &machine);
		for (int size = 0; size < SIZES; size++)
			sc_strbuf_printf(&text, "%s,%s,%.0f,10\n", sc_strbuf_get(&machine), kind,
					 pow(16, size + 1));
	}
	ck_assert_int_eq(sc_csv_parse(&(struct sc_source){sc_strbuf_get(&text), text.n, "t.csv"},
				      &arena, &csv, &err),
			 0);
	guesses = sc_arena_calloc(&arena, n, sizeof(*guesses));
	rows = sc_arena_alloc(&arena, n * sizeof(*rows));
	for (size_t i = 0; i < n; i++)
		rows[i] = i;
	ck_assert_msg(
		sc_fit_guess_rows(&(struct sc_fit_opts){.table = &csv, .kind = SC_FIT_COLLECTIVE},
				  rows, n, &arena, guesses, &err) == 0,
		"%s", err.text);
	for (size_t i = 0; i < n; i++) {
		ck_assert_msg(!guesses[i].skipped, "row %zu: %s", i, guesses[i].skipped);
		ck_assert(isfinite(guesses[i].time_us) && guesses[i].time_us > 0);
		ck_assert(i % SIZES == 0 ||
			  guesses[i].time_us >= guesses[i - 1].time_us * (1 - 1e-12));
	}
	sc_strbuf_release(&machine);
	sc_strbuf_release(&text);
}

/* Machines of published logs and clouds: what their texts tell of them, in 1e9 bytes/s one way. */
static const struct machine {
	const char *device, *intra, *inter;
	int gpus;
	double port, nic; /* of a GPU on links or PCIe; one NIC */
	int nics;         /* of a node */
} MACHINES[] = {
	{"v100-sxm-16gb", "NVLink2", "4x100Gb_IB", 8, 150, 12.5, 4},
	{"v100-sxm3-32gb", "NVLink2_NVSwitch", "8x100Gb_IB", 16, 150, 12.5, 8},
	{"a100-sxm-40gb", "NVLink3_NVSwitch", "8xHDR200_IB", 8, 300, 25, 8},
	{"a100-sxm-80gb", "NVLink3_NVSwitch", "4x100Gb_EFA", 8, 300, 12.5, 4},
	{"a100-sxm-80gb", "NVLink3_direct_mesh", "4x200Gb_Slingshot11", 4, 300, 25, 4},
	{"a100-sxm-80gb", "NVLink3_NVSwitch", "IB_HDR_8x200Gb_SHARP", 8, 300, 25, 8},
	{"a100-pcie-40gb", "PCIe4", "1x100Gb_RoCE", 4, 32, 12.5, 1},
	{"h100-sxm-80gb", "NVLink4_NVSwitch", "8x400Gb_IB", 8, 450, 50, 8},
	{"h100-sxm-80gb", "NVLink4_NVSwitch", "32x100Gb_EFA", 8, 450, 12.5, 32},
	{"h100-sxm-80gb", "NVLink4_NVSwitch", "RoCEv2_16x200Gb", 8, 450, 25, 16},
	{"h200-sxm-141gb", "NVLink4_NVSwitch", "IB_NDR_8x400Gb", 8, 450, 50, 8},
	{"gh200-96gb", "NVLink4_direct_mesh", "4x200Gb_Slingshot11", 4, 450, 25, 4},
	{"b200-sxm-180gb", "NVLink5_NVSwitch", "8x400Gb_RoCE", 8, 900, 50, 8},
	{"mi250x-gcd", "xGMI", "4x200Gb_Slingshot11", 8, 450, 25, 4},
	{"mi300x", "xGMI_full_mesh_7x64GB/s", "8x400Gb_RoCE", 8, 448, 50, 8},
	{"l40s", "PCIe4", "2x200Gb_RoCE", 8, 32, 25, 2},
	{"gb10", "none", "RoCE_200Gb", 1, 32, 25, 1},
};
enum { N_MACHINES = sizeof(MACHINES) / sizeof(MACHINES[0]) };
static const char *const KINDS[] = {"all_reduce", "all_gather", "reduce_scatter",
				    "broadcast",  "all_to_all", "send_recv"};
enum { ALL_REDUCE, BROADCAST = 3, ALL_TO_ALL, SEND_RECV, N_KINDS };

/* What leaves one port, or one node's NICs, takes at least. An all-reduce sends its data once where
 * switches add. */
static double wire_us(const struct machine *m, int kind, int nodes, double bytes)
{
	double n = nodes * m->gpus, local = m->gpus, parts = nodes > 1 ? nodes : n;
	double gbps = nodes > 1 ? m->nics * m->nic : m->port, sent = bytes * (parts - 1) / parts;

	if (kind == ALL_REDUCE || kind == BROADCAST)
		sent = bytes;
	if (kind == ALL_TO_ALL && nodes > 1)
		sent = bytes * local * (n - local) / n;
	if (kind == SEND_RECV) {
		sent = bytes;
		gbps = nodes > 1 ? fmax(1, m->nics / local) * m->nic : m->port;
	}
	return sent / gbps / 1e3;
}

enum { N_SIZES = 33, N_SCALES = 4 };

static void guess_machine(const struct machine *m, int kind, struct sc_fit_guess *out)
{
	static const int nodes[N_SCALES] = {1, 2, 8, 64};
	struct sc_strbuf text = {0};
	struct sc_csv csv;
	size_t rows[N_SCALES * N_SIZES];

	sc_strbuf_append(&text, "device,ranks,nodes,gpus_per_node,intra,inter,collective,bytes,"
				"time_us\n");
	for (size_t i = 0; i < N_SCALES * N_SIZES; i++) {
		int n = nodes[i / N_SIZES], ranks = n * m->gpus;

		rows[i] = i;
		if (ranks < 2) /* one GPU a node */
			n = ranks = 2;
		sc_strbuf_printf(&text, "%s,%d,%d,%d,%s,%s,%s,%.0f,10\n", m->device, ranks, n,
				 m->gpus, m->intra, m->inter, KINDS[kind],
				 ldexp(8, (int)(i % N_SIZES)));
	}
	ck_assert_int_eq(sc_csv_parse(&(struct sc_source){sc_strbuf_get(&text), text.n, "t.csv"},
				      &arena, &csv, &err),
			 0);
	ck_assert_msg(
		sc_fit_guess_rows(&(struct sc_fit_opts){.table = &csv, .kind = SC_FIT_COLLECTIVE},
				  rows, N_SCALES * N_SIZES, &arena, out, &err) == 0,
		"%s", err.text);
	sc_strbuf_release(&text);
}

/* As shipped, on machines of many kinds: never above the wire, never faster for more bytes or (but
 * for the chunk that is copied) nodes, twice the bytes never more than twice as long, and latencies
 * as those of hops are. */
LOOP_TEST(machines_are_sane, N_MACHINES)
{
	static const int nodes[N_SCALES] = {1, 2, 8, 64};
	const struct machine *m = &MACHINES[_i];
	struct sc_fit_guess guesses[N_SCALES * N_SIZES];

	for (int kind = 0; kind < N_KINDS; kind++) {
		guess_machine(m, kind, guesses);
		for (int i = 0; i < N_SCALES * N_SIZES; i++) {
			int n = nodes[i / N_SIZES], size = i % N_SIZES;
			double us = guesses[i].time_us, bytes = ldexp(8, size);
			const char *what = KINDS[kind];

			if (n == 1 && m->gpus == 1)
				n = 2;
			ck_assert_msg(!guesses[i].skipped && !guesses[i].warning, "%s %s %s: %s",
				      m->device, m->intra, m->inter,
				      guesses[i].skipped ? guesses[i].skipped : guesses[i].warning);
			ck_assert_msg(us >= wire_us(m, kind, n, bytes) && us > 2,
				      "%s of %g bytes on %d: %g us", what, bytes, n, us);
			ck_assert_msg(size == 0 || us >= guesses[i - 1].time_us * (1 - 1e-12),
				      "%s of %g bytes on %d falls: %g us", what, bytes, n, us);
			ck_assert_msg(size == 0 || us <= 2 * guesses[i - 1].time_us,
				      "%s of %g bytes on %d jumps: %g us", what, bytes, n, us);
			ck_assert_msg(size > 0 || us < 60 + 60.0 * n * (n > 8 ? m->gpus : 1),
				      "%s of 8 bytes on %d: %g us", what, n, us);
			ck_assert_msg(i < 2 * N_SIZES || us >= 0.95 * guesses[i - N_SIZES].time_us,
				      "%s of %g bytes is faster on %d", what, bytes, n);
		}
	}
}
