/* Rows of a CSV by a table of fields: cells in their places, empty ones left as they are, errors at
 * their cell. */
#include <stddef.h>

#include "base/csv_rows.h"
#include "runner.h"

struct cells {
	const char *name;
	double size;
	int64_t count;
	int color;
};
static const struct sc_name COLORS[] = {{"red", 1}, {"green", 2}, {0}};
static const struct sc_field FIELDS[] = {
	{.key = "name", .type = SC_F_STR, .offset = offsetof(struct cells, name)},
	{.key = "size",
	 .type = SC_F_DOUBLE,
	 .offset = offsetof(struct cells, size),
	 .min = 1,
	 .max = 9,
	 .required = true},
	{.key = "count", .type = SC_F_INT, .offset = offsetof(struct cells, count)},
	{.key = "color",
	 .type = SC_F_ENUM,
	 .offset = offsetof(struct cells, color),
	 .names = COLORS},
	{0},
};

static struct sc_arena arena;
static struct sc_err err;
static struct sc_csv csv;

static void setup(void)
{
	sc_arena_init(&arena, 1 << 12);
	err = (struct sc_err){.code = SC_OK};
}

static void teardown(void)
{
	sc_arena_release(&arena);
}

FIXTURE(setup, teardown)

/* The last row of a text into `out`. */
static int read_last(const char *text, const char *list, struct cells *out)
{
	struct sc_csv_rows rows = {.csv = &csv, .fields = FIELDS, .list = list};
	int rc = sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, &csv, &err);

	ck_assert_int_eq(rc, 0);
	rc = sc_csv_rows_bind(&rows, &arena, &err);
	return rc ? rc : sc_csv_rows_get(&rows, csv.n_rows - 1, out, &err);
}

TEST(cells_come_to_their_places)
{
	struct cells c = {.count = 7};

	ck_assert_int_eq(read_last("other,color,size,name,count\nx,green,2.5,a,\n", NULL, &c), 0);
	ck_assert_str_eq(c.name, "a");
	ck_assert_double_eq_tol(c.size, 2.5, 1e-12);
	ck_assert_int_eq(c.count, 7); /* empty: as it was */
	ck_assert_int_eq(c.color, 2);
}

static const struct {
	const char *text, *list, *message;
} bad[] = {
	{"name,size\na,\n", NULL, "t.csv:2:3: error: size is empty"},
	{"name,size\na,10\n", NULL, "t.csv:2:3: error: size: 10 is out of range; expected 1 to 9"},
	{"name,size\n\"a,b\",x\n", NULL,
	 "t.csv:2: error: size: expected a number from 1 to 9, got \"x\""},
	{"size,color\n2,gren\n", NULL,
	 "t.csv:2:3: error: color: unknown value \"gren\"; did you mean \"green\"? Known: red, green"},
	{"name\na\n", NULL, "t.csv:1: error: no column \"size\""},
	{"size,colour\n2,red\n", "a list",
	 "t.csv:1:6: error: column \"colour\" is none of a list; did you mean \"color\"?"},
};

LOOP_TEST(errors_name_their_cell, N_OF(bad))
{
	char buf[512];
	struct cells c;

	ck_assert_int_lt(read_last(bad[_i].text, bad[_i].list, &c), 0);
	ck_assert_str_eq(sc_err_format(&err, buf, sizeof(buf)), bad[_i].message);
}
