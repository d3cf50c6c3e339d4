/* Options of a command in a shell script: what each text comes to, and where it stands. */
#include <string.h>

#include "core/foreign/shell_args.h"
#include "runner.h"

#define N_OF(list) ((int)(sizeof(list) / sizeof((list)[0])))

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
	{"V=2\nrun --n 1 --x $V", "2", 2, 15},
	{"V=2\nrun --n 1 --x \"${V}5\"", "25", 2, 15},
	{"V=2; V=3\nrun --n 1 --x $V", "3", 2, 15},
	{"export V=2 W=$V\nrun --n 1 --x $W", "2", 2, 15},
	{"run --n 1 --x ${V:-4}", "4", 1, 15},
	{"V=2\nrun --n 1 --x ${V:-4}", "2", 2, 15},
	{"V=\nrun --n 1 --x ${V:-4}", "4", 2, 15},
	{"if a; then V=2; fi\nrun --n 1 --x ${V:-4}", "${V:-4}", 2, 15},
	{"P=2\nA=(3 4 5)\nrun --n 1 --x ${P:-${A[@]}}", "2", 3, 15},
	{"run --n 1 \\\r\n --x 2", "2", 2, 6},
	{"[ a ] &&\nV=2\nrun --n 1 --x $V", "$V", 3, 15},
	{"[ a ] && { W=1; V=2; }\nrun --n 1 --x $V", "$V", 2, 15},
	{"[ a ] && { W=1; }; V=2\nrun --n 1 --x $V", "2", 2, 15},
	{"[ a ] && (W=1; V=2)\nrun --n 1 --x $V", "$V", 2, 15},
	{"f() { V=2; }\nrun --n 1 --x $V", "2", 2, 15},
	{"V=2\nrun --n 1 --x $((V * (3 + 1)))", "8", 2, 15},
	{"run --n 1 --x $((V * 4))", "$((V * 4))", 1, 15},
	{"run --n 1 --x $((9223372036854775807 * 2))", "$((9223372036854775807 * 2))", 1, 15},
	{"run --n 1 --x $V", "$V", 1, 15},
	{"run --n 1 --x $(nproc --all)", "$(nproc --all)", 1, 15},
	{"run --n 1 --x `nproc`", "$`nproc`", 1, 15},
	{"if a; then V=2; fi\nrun --n 1 --x $V", "$V", 2, 15},
	{"[ a ] && V=2\nrun --n 1 --x $V", "$V", 2, 15},
	{"A=(--n 1\n --x 2)\nrun ${A[@]}", "2", 2, 6},
	{"A=(--n 1)\nA+=(--x 2)\nrun \"${A[@]}\"", "2", 2, 9},
	{"A=\"--n 1 \\\n --x 2\"\nrun $A", "2", 2, 3},
	{"A=--n\nA+=\" 1 --x 2\"\nrun $A", "2", 1, 4},
	{"C=\"run --n 1 --x 2\"\nbash -c \"$C\"", "2", 2, 9},
	{"C=\"run --n 1 --x 2\"\neval $C", "2", 1, 3},
	{"C=\"run --n 1 --x 2\"\necho $C\neval $C", "2", 1, 3},
	{"run --n 1", NULL, 0, 0},
};

START_TEST(options_are_read)
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
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("shell_args");
	TCase *options = tcase_create("options");

	tcase_add_loop_test(options, options_are_read, 0, N_OF(CASES));
	suite_add_tcase(suite, options);
	return suite;
}

TEST_MAIN(make_suite)
