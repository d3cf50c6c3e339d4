/* Lists of tables: what a row becomes, and the message of everything that is wrong with one. */
#include "arena_fixture.h"
#include "core/embedding/table_csv.h"
#include "runner.h"

static struct sc_err err;
static struct sc_table_list list;

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	memset(&list, 0, sizeof(list));
}

static int read_text(const char *text)
{
	struct sc_csv csv;

	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, &csv, &err),
		0);
	return sc_tables_read_csv(&csv, &arena, &list, &err);
}

FIXTURE(set_up, arena_end)

TEST(all_columns)
{
	ck_assert_int_eq(read_text("name,rows,dim,pooling_factor,count,features,dtype,weighted,"
				   "sequence,zipf,notes\n"
				   "user,4e7,128,3,,,fp16,true,,,x\n"
				   "ad,39060,64,5,26,2,,false,true,1.05,\n"),
			 0);
	ck_assert_uint_eq(list.n, 2);
	ck_assert_str_eq(list.at[0].name, "user");
	ck_assert_int_eq(list.at[0].rows, 40000000);
	ck_assert_int_eq(list.at[0].dim, 128);
	ck_assert_double_eq_tol(list.at[0].pooling, 3, 1e-12);
	ck_assert_int_eq(list.at[0].count, 1);
	ck_assert_int_eq(list.at[0].features, 1);
	ck_assert_int_eq(list.at[0].storage, SC_FP16 + 1);
	ck_assert(list.at[0].weighted && !list.at[0].sequence);
	ck_assert_int_eq(list.at[1].count, 26);
	ck_assert_int_eq(list.at[1].storage, 0);
	/* Of both features together. */
	ck_assert_double_eq_tol(list.at[1].pooling, 2.5, 1e-12);
	ck_assert_double_eq_tol(list.at[1].reuse.zipf, 1.05, 1e-12);
	ck_assert(!list.at[1].weighted && list.at[1].sequence);
}

TEST(storage_is_dtype)
{
	ck_assert_int_eq(read_text("name,rows,dim,pooling,storage\na,1,4,1,bf16\n"), 0);
	ck_assert_int_eq(list.at[0].storage, SC_BF16 + 1);
	ck_assert_int_eq(list.at[0].dtype, SC_BF16);
}

TEST(published_names)
{
	ck_assert_int_eq(
		read_text("table,rows,dim,pooling,source\na_1,10,4,0.5,s\na_01,10,4,1,s\n"), 0);
	ck_assert_uint_eq(list.n, 2);
	ck_assert_double_eq_tol(list.at[0].pooling, 0.5, 1e-12);
}

#define HEAD "name,rows,dim,pooling\n"
static const struct {
	const char *text, *message;
} bad[] = {
	{HEAD "a,1,4,1\nb,0,4,1\n",
	 "t.csv:3:3: error: rows: 0 is out of range; expected 1 to 1099511627776"},
	{HEAD "a,1,0,1\n", "t.csv:2:5: error: dim: 0 is out of range; expected 1 to 1048576"},
	{HEAD "a,1,4,-1\n",
	 "t.csv:2:7: error: pooling: -1 is out of range; expected 1e-09 to 1000000"},
	{HEAD "a,1,4,0\n",
	 "t.csv:2:7: error: pooling: 0 is out of range; expected 1e-09 to 1000000"},
	{HEAD "a,1,4,nan\n",
	 "t.csv:2:7: error: pooling: expected a number from 1e-09 to 1000000, got \"nan\""},
	{HEAD "a,1,4,inf\n",
	 "t.csv:2:7: error: pooling: expected a number from 1e-09 to 1000000, got \"inf\""},
	{HEAD "a,1.5,4,1\n",
	 "t.csv:2:3: error: rows: expected an integer from 1 to 1099511627776, got \"1.5\""},
	{HEAD ",1,4,1\n", "t.csv:2: error: name is empty"},
	{HEAD "a,1,4,\n", "t.csv:2: error: pooling is empty"},
	{HEAD, "t.csv:1: error: no tables below the header"},
	{"name,rows,dim,pooling,count\na,1,4,1,9999999\nb,1,4,1,2\n",
	 "t.csv:3: error: more than 10000000 tables up to here; give fewer, or a smaller count"},
	{"name,rows,dim,pooling,count\na,1,4,1,10000001\n",
	 "t.csv:2:9: error: count: 10000001 is out of range; expected 1 to 10000000"},
	{"name,rows,dim,pooling,dtype,storage\na,1,4,1,fp16,fp16\n",
	 "t.csv:1: error: columns \"storage\" and \"dtype\" say the same; remove one"},
	{"name,rows,dim,pooling,dtype\na,1,4,1,fp17\n",
	 "t.csv:2:9: error: dtype: unknown value \"fp17\"; did you mean \"fp16\"? Known: fp32, fp16, bf16, "
	 "fp8"},
	{"name,rows,dim\na,1,4\n", "t.csv:1: error: no column \"pooling\" (or \"pooling_factor\")"},
	{"name,dim,pooling\na,1,4\n", "t.csv:1: error: no column \"rows\" (or \"num_embeddings\")"},
	{"name,rows,dim,pooling,pooling_factor\na,1,4,1,1\n",
	 "t.csv:1: error: columns \"pooling\" and \"pooling_factor\" say the same; remove one"},
	{"name,rows,dim,poling\na,1,4,1\n",
	 "t.csv:1:15: error: column \"poling\" is none of a list of tables; did you mean \"pooling\"?"},
	{"name,rows,dim,pooling,colour\na,1,4,1,red\n",
	 "t.csv:1:23: error: column \"colour\" is none of a list of tables"},
};

LOOP_TEST(bad_lists, N_OF(bad))
{
	char buf[600];

	ck_assert_int_ne(read_text(bad[_i].text), 0);
	ck_assert_str_eq(sc_err_format(&err, buf, sizeof(buf)), bad[_i].message);
	ck_assert_uint_eq(list.n, 0);
}
