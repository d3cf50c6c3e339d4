/* Options of a command in a shell script: what each text comes to, and where it stands. */
#include "core/foreign/foreign.h"
#include "runner.h"

/* The value of --x; NULL: there is none. */
static const struct {
	const char *text, *x;
	unsigned line, column;
} CASES[] = {
	{"run --n 1 --x 2", "2", 1, 15},
	{"run --n 1 --x=2", "2", 1, 11},
	{"run --n 1 --x", "true", 1, 11},
	{"run --n 1 --x --y", "true", 1, 11},
	{"run --n 1 --x 2 --x 3", "3", 1, 21},
	{"run --n 1 \\\n --x 2", "2", 2, 6},
	{"run --n 1 --x -1", "-1", 1, 15},
	{"run --n 1 --x 'a b' # --x 3", "a b", 1, 15},
	{"run --n 1 --x 2 >log 2>&1 | tee --x 3", "2", 1, 15},
	{"run --n 1 --x train.py --y", "true", 1, 11},
	{"echo --n 3\nrun --n 1 --x 2", "2", 2, 15},
	{"cd a; run --n 1 --x 2; echo", "2", 1, 21},
	{"a && run --n 1 --x 2", "2", 1, 20},
	{"run --n 1 --x Et*4|(t*4|)*14tmL", "Et*4|(t*4|)*14tmL", 1, 15},
	{"run > log --n 1 --x 2", "2", 1, 21},
	{"run --n 1 --x \"a\\\"b\"'c'\\''d'", "a\"bc'd", 1, 15},
	{"run --n 1 --x ''", "", 1, 15},
	{"run --n 1 \\\r\n --x 2\r\n", "2", 2, 6},
	{"run --n 1 --x $V", "$V", 1, 15},
	{"run --n 1 --x \"${V:-4}\"", "${V:-4}", 1, 15},
	{"srun bash -c 'run --n 1 \\\n --x 2'", "2", 2, 6},
	{"srun bash -c \"run --n 1 --x 'a b'\"", "a b", 1, 28},
	{"srun --x 2 python a.py --n 1", "2", 1, 10},
	{"srun --x 2 bash -c 'run --n 1'", "2", 1, 10},
	{"srun --x 2 bash -c 'run --n 1 --x 3'", "3", 1, 34},
	{"run --n 1", NULL, 0, 0},
};

LOOP_TEST(options_are_read, N_OF(CASES))
{
	struct sc_err err = {.code = SC_OK};
	const struct sc_yaml *x;
	struct sc_arena arena;
	struct sc_yaml *map;
	int rc;

	sc_arena_init(&arena, 1024);
	rc = sc_shell_args_parse(&(struct sc_source){CASES[_i].text, strlen(CASES[_i].text), "t"},
				 "--n", &arena, &map, &err);
	ck_assert_msg(rc == 0, "%s: %s", CASES[_i].text, err.text);
	x = sc_yaml_get(map, "--x");
	ck_assert_msg((x != NULL) == (CASES[_i].x != NULL), "%s", CASES[_i].text);
	if (x) {
		ck_assert_str_eq(x->text, CASES[_i].x);
		ck_assert_msg(x->line == CASES[_i].line && x->column == CASES[_i].column,
			      "%s: at %u:%u", CASES[_i].text, x->line, x->column);
	}
	sc_arena_release(&arena);
}
