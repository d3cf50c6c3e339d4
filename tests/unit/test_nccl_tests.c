/* Logs of nccl-tests: which collective a line of times tells, by its bandwidths. */
#include <unistd.h>

#include "arena_fixture.h"
#include "core/foreign/nccl_tests.h"
#include "runner.h"

/* Busbw of algbw: `whole`, less a part of each of n ranks, that many times. */
static const struct kind {
	const char *name, *redop, *root, *wrong;
	int times;
	bool whole;
} KINDS[] = {
	{"all_reduce", "sum", "-1", "0", 2, false},  {"reduce_scatter", "sum", "-1", "0", 1, false},
	{"all_gather", "none", "-1", "0", 1, false}, {"all_to_all", "none", "-1", "N/A", 1, false},
	{"send_recv", "none", "-1", "0", 1, true},   {"broadcast", "none", "0", "0", 1, true},
	{"scatter", "none", "0", "0", 1, false},     {"reduce", "sum", "0", "0", 1, true}};
enum { N_KINDS = sizeof(KINDS) / sizeof(KINDS[0]) };

static const char *collective_in(const struct kind *kind, int n, bool named, double algbw)
{
	double busbw = algbw * kind->times * (kind->whole ? 1 : (n - 1.0) / n);
	char path[] = "/tmp/nccl-tests-XXXXXX";
	int fd = mkstemp(path);
	FILE *log = fdopen(fd, "w");
	struct sc_csv table;

	ck_assert_ptr_nonnull(log);
	for (int i = 0; named && i < n; i++)
		fprintf(log, "#  Rank %d Group  0 Pid 9 on node%d device %d [0x00] H100\n", i,
			i / 8, i % 8);
	fprintf(log, "1048576 262144 float %s %s 9.00 %.2f %.2f 0 9.00 %.2f %.2f %s\n", kind->redop,
		kind->root, algbw, busbw, algbw, busbw, kind->wrong);
	ck_assert_int_eq(fclose(log), 0);
	ck_assert_int_eq(sc_nccl_tests_load(path, &arena, &table, NULL), 0);
	unlink(path);
	ck_assert_str_eq(table.header[3], "collective");
	return table.cell[3];
}

FIXTURE(arena_begin, arena_end)

LOOP_TEST(by_bandwidths, 7)
{
	static const int ranks[] = {2, 3, 8, 200, 201, 512, 4096};

	for (int k = 0; k < N_KINDS; k++)
		ck_assert_str_eq(collective_in(&KINDS[k], ranks[_i], true, 300), KINDS[k].name);
}

/* A part may be too small for the digits; where ranks have no names, what is all of algbw may be of
 * many. */
TEST(not_told)
{
	ck_assert_str_eq(collective_in(&KINDS[2], 512, true, 1), "");
	ck_assert_str_eq(collective_in(&KINDS[4], 512, true, 1), "");
	ck_assert_str_eq(collective_in(&KINDS[4], 8, false, 300), "");
	ck_assert_str_eq(collective_in(&KINDS[1], 4096, false, 1), "");
	ck_assert_str_eq(collective_in(&KINDS[1], 201, false, 300), "reduce_scatter");
	ck_assert_str_eq(collective_in(&KINDS[0], 8, false, 300), "all_reduce");
}
