/* Networks as the columns intra and inter of a table tell of them. */
#include <check.h>
#include <math.h>

#include "base/rng.h"
#include "base/strbuf.h"
#include "models/fit.h"
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

/* Whatever a table says of its network, it is a network: with a warning, never refused, and never faster for more
 * bytes. */
START_TEST(any_network_is_one)
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
END_TEST

static Suite *fit_network_suite(void)
{
	Suite *suite = suite_create("fit_network");
	TCase *networks = tcase_create("networks");

	tcase_add_checked_fixture(networks, setup, teardown);
	tcase_add_test(networks, any_network_is_one);
	suite_add_tcase(suite, networks);
	return suite;
}

TEST_MAIN(fit_network_suite)
