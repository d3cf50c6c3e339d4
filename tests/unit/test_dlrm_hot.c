/* Hot rows on every rank: laws over tables, reuse, networks and shares of rows at random, and facts
 * by hand. */
#include "base/rng.h"
#include "dlrm_fixture.h"
#include "models/row_reuse.h"
#include "runner.h"
#include "study/shard/shard.h"

enum { N_TABLES = 6, N_RANDOM = 300 };
static const char *const NAMES[N_TABLES] = {"a", "b", "c", "d", "e", "f"};
static struct sc_table tables[N_TABLES];
static struct sc_shard_plan plan;

static void finish(void)
{
	sc_shard_plan_release(&plan);
	tear_down();
}

FIXTURE(set_up, finish)

#define ONE_NODE "gpus=8 cluster.gpus_per_node=8 cluster.nics_per_node=8 training.software=hugectr "
#define NODES "gpus=16 cluster.gpus_per_node=8 cluster.nics_per_node=8 training.software=hugectr "

static void draw_tables(struct sc_rng *rng)
{
	for (int i = 0; i < N_TABLES; i++) {
		const double rows = 16 * pow(1e6, sc_rng_uniform(rng));
		const bool one_hot = sc_rng_below(rng, 2) == 0;
		const double pooling = one_hot ? 1 : 1 + (double)sc_rng_below(rng, 30);

		tables[i] = make_table(NAMES[i], (int64_t)rows, pooling);
		if (sc_rng_below(rng, 4))
			tables[i].reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF,
							    .zipf = 0.6 + sc_rng_uniform(rng)};
	}
}

/* Whole or by rows over all, with that share of the rows hot. */
static void draw_plan(const struct sc_request *req, struct sc_rng *rng, double hot)
{
	sc_shard_plan_release(&plan);
	plan_init(&plan, req);
	for (int i = 0; i < N_TABLES; i++) {
		const bool whole = sc_rng_below(rng, 3) == 0;
		const int32_t rank = (int32_t)sc_rng_below(rng, plan.world);
		int32_t *ranks = sc_arena_calloc(&arena, plan.world, sizeof(*ranks));
		struct sc_table_placement *t =
			sc_plan_begin_table(&plan, &tables[i], whole ? SC_TABLE_WISE : SC_ROW_WISE);

		t->hot_rows = (int64_t)((double)t->rows * hot);
		for (uint32_t r = 0; r < plan.world; r++)
			ranks[r] = whole ? rank : (int32_t)r;
		sc_plan_add_rows(&plan, ranks, whole ? 1 : plan.world, 0, t->dim);
	}
}

static struct sc_dlrm_exchange exchange_of(const struct sc_request *req)
{
	struct sc_dlrm dlrm;
	struct sc_dlrm_exchange out;

	init_dlrm(&dlrm, req, &plan);
	out = dlrm.exchange;
	return out;
}

/* Beside the rows that owners read, and step, for others. */
static double held_bytes(const struct sc_request *req, double *lookups)
{
	struct sc_dlrm dlrm;
	double bytes = 0;

	*lookups = 0;
	init_dlrm(&dlrm, req, &plan);
	for (size_t c = 0; c < dlrm.n_classes; c++) {
		const struct sc_dlrm_work *w = &dlrm.classes[c].work;

		bytes = fmax(bytes, w->table_bytes);
		*lookups += dlrm.classes[c].multiplicity * (w->lookup.lookups + w->replica.lookups);
	}
	*lookups -= dlrm.exchange.pulled_bytes / (FIX_DIM * dlrm.output_elem_bytes) *
		    (double)dlrm.plan.world;
	return bytes;
}

/* Between none and all: what is exchanged, reduced and pulled; a step is no longer than both. What
 * a rank holds is its shards and its copies, and no lookup is lost. */
LOOP_TEST(between_none_and_all, n_cases(N_RANDOM))
{
	const uint64_t seed = (uint64_t)nth_case(_i, N_RANDOM);
	struct sc_request *req;
	struct sc_rng rng;
	double ms[3], held[3], lookups[3], hot[] = {0, 0, 1}, copies = 0, all = 0;
	struct sc_dlrm_exchange x[3];

	sc_rng_init(&rng, seed);
	draw_tables(&rng);
	for (int i = 0; i < N_TABLES; i++)
		all += BATCH * tables[i].pooling;
	hot[1] = pow(10, -4 * sc_rng_uniform(&rng));
	req = make_request(tables, N_TABLES,
			   seed % 2 ? ONE_NODE "training.precision=amp_fp16"
				    : NODES "training.optimizer=sgd");
	for (int k = 0; k < 3; k++) {
		struct sc_rng same;

		sc_rng_init(&same, seed + 1000);
		draw_plan(req, &same, hot[k]);
		x[k] = exchange_of(req);
		held[k] = held_bytes(req, &lookups[k]);
		ms[k] = run_plan(req, &plan)->iteration_ms;
		for (size_t t = 0; k == 1 && t < plan.tables.n; t++)
			copies += (double)plan.tables.at[t].hot_rows * FIX_DIM * 4;
	}
	ck_assert_double_le(x[1].output_bytes - x[1].pulled_bytes, x[0].output_bytes * (1 + 1e-9));
	ck_assert_double_le(x[2].output_bytes - x[2].pulled_bytes, 1e-6 * x[0].output_bytes);
	ck_assert_double_le(x[1].host_scatter_bytes, x[0].host_scatter_bytes * (1 + 1e-9));
	ck_assert_double_le(x[1].hot_grad_bytes, x[2].hot_grad_bytes * (1 + 1e-9));
	ck_assert_double_le(x[1].pulled_bytes, x[2].pulled_bytes * (1 + 1e-9));
	ck_assert_double_le(x[0].hot_grad_bytes + x[0].pulled_bytes, 0);
	ck_assert_msg(ms[1] <= ms[0] + ms[2], "%llu: %g between %g and %g ms",
		      (unsigned long long)seed, ms[1], ms[0], ms[2]);
	ck_assert_double_eq_tol(held[1], held[0] + copies, 1e-6 * held[1]);
	/* A table without hot rows counts its first slice for more, and the others for no less:
	 * those have some. */
	if (copies > 0 && hot[1] * 16 >= 1)
		ck_assert_double_eq_tol(lookups[1], all, 1e-6 * all);
	ck_assert_double_eq_tol(lookups[2], all, 1e-6 * all);
}

/* With the same rows hot, a larger share of the lookups that they take never moves more over the
 * network; nor do more hot rows make the exchange longer. */
LOOP_TEST(a_larger_hot_share_moves_no_more, n_cases(N_RANDOM))
{
	const uint64_t seed = (uint64_t)nth_case(_i, N_RANDOM);
	double moved[2], least = INFINITY, hot;
	struct sc_request *req;
	struct sc_rng rng;

	sc_rng_init(&rng, seed);
	draw_tables(&rng);
	hot = pow(10, -4 * sc_rng_uniform(&rng));
	for (int k = 0; k < 2; k++) {
		struct sc_dlrm_exchange x;
		struct sc_rng same;

		for (int i = 0; i < N_TABLES; i++)
			tables[i].reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF,
							    .zipf = 0.7 + 0.4 * k + 0.05 * i};
		req = make_request(tables, N_TABLES, seed % 2 ? ONE_NODE : NODES);
		sc_rng_init(&same, seed + 1000);
		draw_plan(req, &same, hot);
		x = exchange_of(req);
		moved[k] = x.output_bytes + x.host_scatter_bytes + x.hot_grad_bytes;
	}
	ck_assert_double_le(moved[1], moved[0] * (1 + 1e-9));
	for (double share = 1e-4; share <= 1; share *= 10) {
		struct sc_dlrm_exchange x;
		struct sc_rng same;

		sc_rng_init(&same, seed + 1000);
		draw_plan(req, &same, share);
		x = exchange_of(req);
		ck_assert_double_le(x.output_bytes - x.pulled_bytes, least * (1 + 1e-9));
		least = x.output_bytes - x.pulled_bytes;
	}
}

/* Eight tables of 4 rows each alike, all hot, on one node: nothing is exchanged but 4 rows of each,
 * once forward and once back, and across nodes their gradients are reduced in fp16. */
TEST(hot_rows_by_hand)
{
	static const char *const where[] = {ONE_NODE "training.precision=amp_fp16",
					    NODES "training.precision=amp_fp16"};
	struct sc_dlrm_exchange x;
	struct sc_rng rng;

	for (int i = 0; i < N_TABLES; i++)
		tables[i] = make_table(NAMES[i], 4, 1);
	for (int k = 0; k < 2; k++) {
		struct sc_request *req = make_request(tables, N_TABLES, where[k]);

		sc_rng_init(&rng, 1);
		draw_plan(req, &rng, 1);
		x = exchange_of(req);
		ck_assert_double_eq_tol(k ? x.hot_grad_bytes : x.pulled_bytes,
					N_TABLES * 4 * FIX_DIM * 2, 1e-6);
		ck_assert_double_eq_tol(k ? x.pulled_bytes : x.hot_grad_bytes, 0, 1e-9);
		ck_assert_double_eq_tol(x.output_bytes, x.pulled_bytes, 1e-6);
	}
}

/* A host of all ranks: no step between nodes, one all-to-all over all of them. */
TEST(a_plan_of_one_host_exchanges_plainly)
{
	struct sc_request *req;
	struct sc_dlrm_exchange by_node, plain;
	struct sc_rng rng;

	sc_rng_init(&rng, 3);
	draw_tables(&rng);
	req = make_request(tables, N_TABLES, NODES);
	sc_rng_init(&rng, 3);
	draw_plan(req, &rng, 0.01);
	by_node = exchange_of(req);
	plan.ranks_per_host = plan.world;
	plain = exchange_of(req);
	ck_assert_double_gt(by_node.host_scatter_bytes, 0);
	ck_assert_double_le(plain.host_scatter_bytes, 0);
	ck_assert_double_gt(plain.output_bytes, 0);
	ck_assert_double_eq_tol(plain.hot_grad_bytes, by_node.hot_grad_bytes, 1e-9);
}

TEST(other_software_has_no_hot_rows)
{
	struct sc_request *req;
	struct sc_predict_opts opts;
	struct sc_prediction out;
	struct sc_err err = {0};
	struct sc_rng rng;

	sc_rng_init(&rng, 3);
	draw_tables(&rng);
	req = make_request(tables, N_TABLES, "");
	draw_plan(req, &rng, 0.5);
	sc_predict_opts_init(&opts);
	opts.plan = &plan;
	ck_assert_int_eq(predict_chosen(req, &opts, &out, &err), -SC_EUNSUPPORTED);
	ck_assert_str_eq(err.text, "table \"a\": hot_rows needs software that adds up parts of "
				   "vectors (dlrm.partial_sums of its profile), as hugectr; "
				   "torchrec does not");
}

/* ---- which rows are hot ---- */

/* HugeCTR's thresholds with the values of its recipes: 6,912 samples a GPU, 0.01: 2.046e-5 of the
 * lookups; 8 nodes and a batch of 71,680: 64 / 7 * 19 / 13 of them. */
TEST(thresholds_by_hand)
{
	const struct sc_hybrid_opts node = {55296, 8, 8}, nodes = {71680, 64, 8},
				    one = {4096, 1, 1};
	struct sc_table t = make_table("t", 48000, 1);

	ck_assert_int_eq(sc_hybrid_hot_rows(&node, &t, 1), 48000);
	t.rows = 49000;
	ck_assert_int_eq(sc_hybrid_hot_rows(&node, &t, 1), 0);
	t.rows = 5360;
	ck_assert_int_eq(sc_hybrid_hot_rows(&nodes, &t, 1), 5360);
	t.rows = 5370;
	ck_assert_int_eq(sc_hybrid_hot_rows(&nodes, &t, 1), 0);
	ck_assert_int_eq(sc_hybrid_hot_rows(&one, &t, 1), 0);
	ck_assert_int_eq(sc_hybrid_hot_rows(&nodes, &t, 0.5), 5370);
}

/* Of any description of reuse: rows above a frequency are the fewer the higher it is; the share of
 * the lookups that they take is theirs in the hit rate of a cache that pins them; distinct ones are
 * no more than they are, nor than all. */
LOOP_TEST(top_rows_are_sane, 4)
{
	static double row_bins[] = {0.6, 0.3, 0.1}, lookup_bins[] = {0.2, 0.2, 0.6},
		      cached[] = {0.01, 0.1, 0.5}, miss[] = {0.7, 0.4, 0.2};
	const struct sc_reuse kinds[] = {
		{.kind = SC_REUSE_UNIFORM},
		{.kind = SC_REUSE_ZIPF, .zipf = 1.1},
		{.kind = SC_REUSE_BINS,
		 .row_bins = {row_bins, 3},
		 .lookup_bins = {lookup_bins, 3},
		 .n_lookups = 3000,
		 .n_unique = 1000},
		{.kind = SC_REUSE_MRC, .cached_frac = {cached, 3}, .miss_frac = {miss, 3}},
	};
	const struct sc_reuse *reuse = &kinds[_i];

	for (double rows = 10; rows < 1e8; rows *= 33) {
		double last = rows;

		for (double share = 1e-9; share < 1; share *= 3) {
			const double above = sc_reuse_rows_above(reuse, rows, share);
			struct sc_row_question q = {SC_ROWS_TOP_SHARE, rows, 1000, above};
			const double taken = sc_row_fact(NULL, reuse, &q);
			double unique, next;

			q.fact = SC_ROWS_TOP_UNIQUE;
			unique = sc_row_fact(NULL, reuse, &q);
			q.fact = SC_ROWS_TOP_NEXT;
			next = sc_row_fact(NULL, reuse, &q);
			ck_assert(above >= 0 && above <= last);
			ck_assert(taken >= above * share * (1 - 1e-6) - 1e-12 && taken <= 1);
			ck_assert(unique <= above + 1e-9 &&
				  unique <= sc_reuse_unique(reuse, rows, 1000) + 1e-9);
			ck_assert(next >= 0 && next <= 1);
			last = above;
		}
	}
}
