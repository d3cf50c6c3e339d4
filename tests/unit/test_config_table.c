/* CSV tables over a base config: headers, empty cells, files, messages. */
#include "config_fixture.h"
#include "core/config/config_table.h"
#include "runner.h"

static struct sc_config base, config;
static struct sc_csv csv;
static struct sc_config_table table;

static int bind(const char *text)
{
	memset(&err, 0, sizeof(err));
	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, &csv, &err),
		0);
	table = (struct sc_config_table){.csv = &csv, .base = &base};
	return sc_config_table_bind(&table, &arena, &err);
}

static int row(size_t index)
{
	memset(&err, 0, sizeof(err));
	return sc_config_table_row(&table, index, &arena, &config, &err);
}

static void set_up_base(void)
{
	set_up();
	ck_assert_int_eq(
		sc_config_load(write_file("base.yaml", "gpus: 8\nmodel: {family: gpt, layers: 4}\n"
						       "parallel: {tp: 2}\n"),
			       &arena, &base, &err),
		0);
}

FIXTURE(set_up_base, tear_down)

TEST(cells_go_over_the_base)
{
	ck_assert_int_eq(bind("case,gpus,parallel.tp,measured_ms,notes,training.recompute\n"
			      "a,16,,1,x,full\n"
			      "b,,4,2,y,\n"),
			 0);
	ck_assert_int_eq(row(0), 0);
	ck_assert_int_eq(config.gpus, 16);
	ck_assert_int_eq(config.parallel.tp, 2);
	ck_assert_int_eq(config.training.recompute, SC_RECOMPUTE_FULL);
	ck_assert_double_eq(config.measured_ms, 0);
	ck_assert_ptr_null(config.notes);
	ck_assert_int_eq(row(1), 0);
	ck_assert_int_eq(config.gpus, 8);
	ck_assert_int_eq(config.parallel.tp, 4);
	ck_assert_int_eq((int)config.training.recompute, SC_NOT_GIVEN);
	ck_assert_str_eq(sc_config_origin(&config, "parallel.tp")->file, "t.csv");
	ck_assert_uint_eq(sc_config_origin(&config, "parallel.tp")->line, 3);
	ck_assert_uint_eq(sc_config_origin(&config, "gpus")->line, 1);
}

TEST(unknown_dotted_headers_are_errors)
{
	ck_assert_int_ne(bind("case,parallel.tpp\na,1\n"), 0);
	ck_assert_str_eq(
		message(),
		"t.csv:1:6: error: a column with a dot is a key: unknown key \"parallel.tpp\"; did you "
		"mean \"parallel.tp\"?");
	ck_assert_int_ne(bind("case,what.ever.this\na,1\n"), 0);
	ck_assert_ptr_nonnull(strstr(message(),
				     "t.csv:1:6: error: a column with a dot is a key: unknown "
				     "key \"what.ever.this\"; known keys: schema, "));
	ck_assert_int_eq(bind("sharding.planner,sharding.bw_ratio\nhugectr,7\n"), 0);
	ck_assert_int_eq(row(0), 0);
}

TEST(bad_cells_name_row_and_key)
{
	ck_assert_int_eq(bind("case,parallel.tp\na,1\nb,x\n"), 0);
	ck_assert_int_eq(row(0), 0);
	config.gpus = 77;
	ck_assert_int_ne(row(1), 0);
	ck_assert_str_eq(message(),
			 "t.csv:3: error: parallel.tp: expected an integer from 1 to 4096, got "
			 "\"x\"");
	ck_assert_int_eq(config.gpus, 77);
}

TEST(a_model_replaces_the_bases)
{
	write_file("models/m.yaml", "family: llama\nhidden: 64\n");
	write_file("clusters/c.yaml", "gpu: test-gpu\n");
	write_file("models/bad.yaml", "family: llama\nhiden: 64\n");
	ck_assert_int_eq(bind("model.heads,model,cluster\n"
			      "8,models/m.yaml,clusters/c.yaml\n"
			      "9,,\n"
			      "7,models/none.yaml,\n"
			      "6,models/m.yaml,\n"
			      "5,models/bad.yaml,\n"),
			 0);
	ck_assert_uint_eq(table.model.n, 3);
	ck_assert_int_eq(row(0), 0);
	ck_assert_int_eq(config.model.family, SC_LLAMA);
	ck_assert_int_eq(config.model.layers, SC_NOT_GIVEN);
	ck_assert_int_eq(config.model.heads, 8);
	ck_assert_str_eq(config.cluster.gpu, "test-gpu");
	ck_assert_ptr_null(sc_config_origin(&config, "model.layers"));
	ck_assert_uint_eq(sc_config_origin(&config, "model.hidden")->line, 2);
	ck_assert_int_eq(row(1), 0);
	ck_assert_int_eq(config.model.family, SC_GPT);
	ck_assert_int_eq(config.model.heads, 9);
	ck_assert_ptr_null(config.cluster.gpu);
	ck_assert_int_ne(row(2), 0);
	ck_assert_ptr_nonnull(
		strstr(message(), "t.csv:4: error: model: no file \"models/none.yaml\""));
	ck_assert_int_eq(row(3), 0);
	ck_assert_int_eq(config.model.hidden, 64);
	ck_assert_int_ne(row(4), 0);
	ck_assert_ptr_nonnull(strstr(message(), "t.csv:6: error: "));
	ck_assert_ptr_nonnull(strstr(message(),
				     "models/bad.yaml:2:1: unknown key \"model.hiden\"; did you "
				     "mean \"model.hidden\"?"));
}

TEST(errors_of_a_row_say_which)
{
	struct sc_catalog *catalog = sc_catalog_create();
	struct sc_request request;

	ck_assert_int_eq(bind("cluster.gpu,parallel.pp\ntest-gpu,\nnone,\n"), 0);
	ck_assert_int_eq(row(0), 0);
	ck_assert_int_ne(sc_config_resolve(&config, catalog, "t.csv", &request, &err), 0);
	ck_assert_str_eq(message(),
			 "t.csv:2: error: training.global_batch is not given; it is the number "
			 "of samples of one iteration, over all replicas");
	ck_assert_int_eq(row(1), 0);
	ck_assert_int_ne(sc_config_resolve(&config, catalog, "t.csv", &request, &err), 0);
	ck_assert_ptr_nonnull(
		strstr(message(), "t.csv:3: error: cluster.gpu: unknown GPU \"none\""));
	sc_catalog_destroy(catalog);
}
