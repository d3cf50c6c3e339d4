/* What each rank looks up, stores and sends under a plan, computed by hand. */
#include "base/units.h"
#include "dlrm_fixture.h"
#include "models/row_reuse.h"
#include "runner.h"

/* Bytes of one table's pooled vectors of the whole batch, fp32. */
#define VECTORS (BATCH * FIX_DIM * 4)
#define NODES2 "cluster.gpus_per_node=2 cluster.nics_per_node=2 "

enum { N_TABLES = 6 };
static const char *const NAMES[N_TABLES] = {"a", "b", "c", "d", "e", "f"};
static struct sc_table tables[N_TABLES];
static struct sc_shard_plan plan;
static struct sc_dlrm dlrm;

static void make_tables(size_t n)
{
	for (size_t i = 0; i < n; i++)
		tables[i] = make_table(NAMES[i], 100000, 2);
}

static struct sc_request *start(size_t n, const char *overrides)
{
	struct sc_request *req = make_request(tables, n, overrides);

	plan_init(&plan, req);
	return req;
}

static void finish(void)
{
	sc_shard_plan_release(&plan);
}

FIXTURE(set_up, tear_down)

/* All wait for the rank that sends most. */
TEST(busiest_sender_sets_the_exchange)
{
	static const int rank[N_TABLES] = {0, 0, 0, 1, 2, 2};
	struct sc_request *req;

	make_tables(N_TABLES);
	tables[3].pooling = 50; /* more lookups, as many vectors */
	req = start(N_TABLES, "");
	for (int i = 0; i < N_TABLES; i++)
		place(&plan, &tables[i], SC_TABLE_WISE, 1, rank[i]);
	init_dlrm(&dlrm, req, &plan);
	ck_assert_double_eq_tol(dlrm.exchange.output_bytes, 3 * VECTORS, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.index_bytes, BATCH * 50 * 8, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.scatter_bytes, 0, 1e-9);
	ck_assert_double_eq_tol(dlrm.exchange.host_scatter_bytes, 0, 1e-9);
	ck_assert_double_eq_tol(dlrm.exchange.replica_grad_bytes, 0, 1e-9);
	/* rank 3 has none, and is a class of its own as all here are */
	ck_assert_uint_eq(dlrm.n_classes, 4);
	ck_assert_double_eq_tol(class_of(&dlrm, 3)->work.lookup.lookups, 0, 1e-9);
	ck_assert_double_eq_tol(class_of(&dlrm, 0)->work.lookup.lookups, 3 * BATCH * 2, 1e-6);
	finish();
}

/* Features, sequences and weights of one table. */
TEST(what_a_table_sends)
{
	static const struct {
		double pooling, features;
		bool sequence, weighted;
		double vectors, index_bytes; /* of a sample */
	} cases[] = {
		{5, 1, false, false, 1, 5 * 8},
		{5, 3, false, false, 3, 15 * 8},
		{5, 1, true, false, 5, 5 * 8},
		{5, 2, true, true, 10, 10 * 12},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_request *req;

		make_tables(1);
		tables[0].pooling = cases[i].pooling;
		tables[0].features = (int64_t)cases[i].features;
		tables[0].sequence = cases[i].sequence;
		tables[0].weighted = cases[i].weighted;
		req = start(1, "");
		place(&plan, &tables[0], SC_TABLE_WISE, 1, 1);
		init_dlrm(&dlrm, req, &plan);
		ck_assert_double_eq_tol(dlrm.exchange.output_bytes, cases[i].vectors * VECTORS,
					1e-6);
		ck_assert_double_eq_tol(dlrm.exchange.index_bytes, BATCH * cases[i].index_bytes,
					1e-6);
		finish();
	}
}

/* Half precision is exchanged where GEMMs are in it. */
TEST(element_bytes)
{
	static const struct {
		const char *overrides;
		double bytes;
	} cases[] = {
		{"training.software=hugectr training.precision=amp_fp16", 2},
		{"training.software=hugectr training.precision=tf32", 4},
		{"training.software=torchrec training.precision=bf16", 2},
	};

	make_tables(1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_request *req = start(1, cases[i].overrides);

		place(&plan, &tables[0], SC_TABLE_WISE, 1, 0);
		init_dlrm(&dlrm, req, &plan);
		ck_assert_double_eq_tol(dlrm.exchange.output_bytes,
					BATCH * FIX_DIM * cases[i].bytes, 1e-6);
		finish();
	}
}

TEST(row_wise_is_reduce_scattered)
{
	struct sc_request *req;

	make_tables(2);
	req = start(2, "");
	place(&plan, &tables[0], SC_ROW_WISE, 4, 0);
	place(&plan, &tables[1], SC_ROW_WISE, 4, 0);
	init_dlrm(&dlrm, req, &plan);
	ck_assert_double_eq_tol(dlrm.exchange.scatter_bytes, 2 * VECTORS, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.output_bytes, 0, 1e-9);
	/* a quarter of the lookups each: no row is more popular than others */
	ck_assert_uint_eq(dlrm.n_classes, 1);
	ck_assert_uint_eq(dlrm.classes[0].multiplicity, 4);
	ck_assert_double_eq_tol(dlrm.classes[0].work.lookup.lookups, 2 * BATCH * 2 / 4, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.index_bytes, 2 * BATCH * 2 * 8 / 4, 1);
	finish();
}

/* Hosts reduce at the same time: two tables on one take twice as long as one on each. */
TEST(table_row_wise_is_reduced_by_host)
{
	for (int second = 0; second <= 2; second += 2) {
		struct sc_request *req;
		double n = second ? 1 : 2; /* tables of the busiest host */

		make_tables(2);
		req = start(2, NODES2);
		place(&plan, &tables[0], SC_TABLE_ROW_WISE, 2, 0);
		place(&plan, &tables[1], SC_TABLE_ROW_WISE, 2, second);
		init_dlrm(&dlrm, req, &plan);
		ck_assert_double_eq_tol(dlrm.exchange.host_scatter_bytes, n * VECTORS, 1e-6);
		/* what is added up is shared by the two ranks of the host */
		ck_assert_double_eq_tol(dlrm.exchange.output_bytes, n * VECTORS / 2, 1e-6);
		ck_assert_double_eq_tol(dlrm.exchange.scatter_bytes, 0, 1e-9);
		finish();
	}
}

/* HugeCTR: every slice sends its sums, added up in the node, then those of the node. */
TEST(partial_sums_are_added_up_by_node)
{
	static const char text[] = NODES2 "training.software=hugectr training.precision=amp_fp16";
	const double vectors = BATCH * FIX_DIM * 2;
	struct sc_request *req;

	make_tables(3);
	req = start(3, text);
	place(&plan, &tables[0], SC_TABLE_ROW_WISE, 2, 0);
	place(&plan, &tables[1], SC_TABLE_WISE, 1, 0);
	place(&plan, &tables[2], SC_TABLE_WISE, 1, 2);
	init_dlrm(&dlrm, req, &plan);
	ck_assert_double_eq_tol(dlrm.exchange.host_scatter_bytes, 2 * vectors, 1e-6);
	/* the first node has two tables; each of its two ranks sends for half of the batch */
	ck_assert_double_eq_tol(dlrm.exchange.output_bytes, 2 * vectors / 2, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.scatter_bytes, 0, 1e-9);
	finish();
	req = start(3, "training.software=hugectr training.precision=amp_fp16");
	place(&plan, &tables[0], SC_ROW_WISE, 4, 0);
	place(&plan, &tables[1], SC_TABLE_WISE, 1, 0);
	place(&plan, &tables[2], SC_TABLE_WISE, 1, 2);
	init_dlrm(&dlrm, req, &plan);
	ck_assert_double_eq_tol(dlrm.exchange.host_scatter_bytes, 0, 1e-9);
	ck_assert_double_eq_tol(dlrm.exchange.output_bytes, 2 * vectors, 1e-6);
	finish();
}

TEST(replicas_look_up_their_samples)
{
	struct sc_request *req;

	make_tables(2);
	tables[0].rows = 1000;
	req = start(2, "");
	place(&plan, &tables[0], SC_DATA_PARALLEL, 4, 0);
	place(&plan, &tables[1], SC_ROW_WISE, 4, 0);
	init_dlrm(&dlrm, req, &plan);
	ck_assert_double_eq_tol(dlrm.classes[0].work.replica.lookups, BATCH / 4 * 2, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.replica_grad_bytes, 1000 * FIX_DIM * 4, 1e-6);
	ck_assert_double_eq_tol(dlrm.exchange.output_bytes, 0, 1e-9);
	ck_assert_double_eq_tol(dlrm.classes[0].work.table_bytes, (1000 + 25000) * FIX_DIM * 4.0,
				1e-6);
	finish();
}

/* What of a table and its optimizer's state is where. */
TEST(memory_by_tier)
{
	static const struct {
		enum sc_tier tier;
		double cache_frac, hbm, host, ssd; /* shares */
	} cases[] = {
		{SC_TIER_HBM, 0, 1, 0, 0},
		{SC_TIER_CACHED, 0.25, 0.25, 1, 0},
		{SC_TIER_UVM, 0, 0, 1, 0},
		{SC_TIER_SSD, 0, 0, 0, 1},
	};
	const double bytes = 100000 * FIX_DIM * 4.0, state = 2 * bytes; /* Adam */

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_request *req;
		struct sc_table_placement *p;
		const struct sc_dlrm_work *w;

		make_tables(1);
		req = start(1, "training.optimizer=adam");
		p = place(&plan, &tables[0], SC_TABLE_WISE, 1, 2);
		p->tier = cases[i].tier;
		p->cache_frac = cases[i].cache_frac;
		init_dlrm(&dlrm, req, &plan);
		w = &class_of(&dlrm, 2)->work;
		ck_assert_double_eq_tol(w->table_bytes, cases[i].hbm * bytes, 1e-6);
		ck_assert_double_eq_tol(w->state_bytes, cases[i].hbm * state, 1e-6);
		ck_assert_double_eq_tol(w->host_bytes, cases[i].host * (bytes + state), 1e-6);
		ck_assert_double_eq_tol(w->ssd_bytes, cases[i].ssd * (bytes + state), 1e-6);
		finish();
	}
}

/* Optimizer state of a row of 64 columns, bytes. */
TEST(state_by_optimizer)
{
	static const struct {
		const char *overrides;
		double bytes;
	} cases[] = {
		{"training.optimizer=sgd", 0},
		{"training.optimizer=adagrad", 4 * FIX_DIM},
		{"training.optimizer=adam", 8 * FIX_DIM},
	};

	make_tables(1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_request *req = start(1, cases[i].overrides);

		place(&plan, &tables[0], SC_TABLE_WISE, 1, 0);
		init_dlrm(&dlrm, req, &plan);
		ck_assert_double_eq_tol(class_of(&dlrm, 0)->work.state_bytes,
					100000 * cases[i].bytes, 1e-6);
		finish();
	}
}

/* The first slice of rows has the hottest row of a skewed table. */
TEST(first_row_slice_is_hotter)
{
	struct sc_request *req;
	double skew;

	make_tables(1);
	tables[0].reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF, .zipf = 1.3};
	req = start(1, "");
	place(&plan, &tables[0], SC_ROW_WISE, 4, 0);
	init_dlrm(&dlrm, req, &plan);
	skew = sc_reuse_row_skew(&tables[0].reuse, 100000, 4);
	ck_assert_double_gt(skew, 1.2);
	ck_assert_uint_eq(dlrm.n_classes, 2);
	ck_assert_double_eq_tol(class_of(&dlrm, 0)->work.lookup.lookups, BATCH * 2 / 4 * skew,
				1e-6 * BATCH);
	ck_assert_double_eq_tol(class_of(&dlrm, 1)->work.lookup.lookups, BATCH * 2 / 4, 1e-6);
	ck_assert_uint_eq(class_of(&dlrm, 1)->multiplicity, 3);
	finish();
}

/* Three rows over four ranks: one is left without. */
TEST(slice_without_rows_has_no_work)
{
	struct sc_request *req;

	tables[0] = make_table(NAMES[0], 3, 2);
	tables[0].reuse = (struct sc_reuse){.kind = SC_REUSE_UNIFORM};
	req = start(1, "");
	place(&plan, &tables[0], SC_ROW_WISE, 4, 0);
	for (int i = 0; i < 4; i++) {
		plan.shards.at[i].row_offset = i;
		plan.shards.at[i].rows = i < 3 ? 1 : 0;
	}
	init_dlrm(&dlrm, req, &plan);
	ck_assert_double_eq_tol(class_of(&dlrm, 3)->work.lookup.lookups, 0, 1e-9);
	ck_assert_double_eq_tol(class_of(&dlrm, 3)->work.update.lookups, 0, 1e-9);
	ck_assert_double_eq_tol(class_of(&dlrm, 3)->work.index_bytes, 0, 1e-9);
	ck_assert_double_eq_tol(class_of(&dlrm, 0)->work.lookup.lookups, BATCH * 2.0 / 3, 1e-6);
	finish();
}
