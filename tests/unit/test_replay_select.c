/* Selectors: what is refused, and what matches. */
#include "runner.h"
#include "trace/replay/replay_select.h"

static struct sc_arena arena;
static struct sc_err err;

static void setup(void)
{
	sc_arena_init(&arena, 1024);
	err = (struct sc_err){.code = SC_OK};
}

static void teardown(void)
{
	sc_arena_release(&arena);
}

static const struct sc_replay_subject GEMM = {.kind = SC_REPLAY_KERNEL,
					      .name = "ampere_sgemm_128x64_tn_normal",
					      .family = "gemm",
					      .rank = 3,
					      .dp_rank = 1,
					      .stage = 0,
					      .step = 12};
static const struct sc_replay_subject SEND = {.kind = SC_REPLAY_P2P,
					      .name = "backward-send",
					      .rank = 0,
					      .dp_rank = -1,
					      .stage = 2,
					      .step = 0};

static const struct {
	const char *text;
	bool gemm, send;
} matches[] = {
	{"kernel", true, false},
	{"p2p", false, true},
	{"collective", false, false},
	{"copy", false, false},
	{"host", false, false},
	{"all", true, true},
	{"kernel:GEMM", true, false},
	{"kernel:norm", false, false}, /* a family, though "normal" has it */
	{"op:gemm", true, false},
	{"kernel:ampere_S", true, false},
	{"kernel:relu", false, false},
	{"op:back", false, true},
	{"p2p:send", false, true},
	{"rank:3", true, false},
	{"dp:1", true, false},
	{"stage:2", false, true},
	{"step:12", true, false},
	{"all,rank:0", false, true},
	{"kernel,rank:0", false, false},
	{"kernel:gemm,rank:3,dp:1,stage:0,step:12", true, false},
	{"kernel:ampere_sgemm_128x64_tnx", false, false},
	{"range:DataLoader", false, false}, /* in none */
};

FIXTURE(setup, teardown)

LOOP_TEST(test_match, N_OF(matches))
{
	struct sc_selector selector;

	ck_assert_int_eq(sc_selector_parse(matches[_i].text, &arena, &selector, &err), 0);
	ck_assert_str_eq(selector.text, matches[_i].text);
	ck_assert_int_eq(sc_selector_match(&selector, &GEMM), matches[_i].gemm);
	ck_assert_int_eq(sc_selector_match(&selector, &SEND), matches[_i].send);
}

static const struct {
	const char *text, *message;
} refused[] = {
	{"", "selector \"\": unknown \"\"; known are kernel, collective, p2p, copy, host, op, all, "
	     "range, rank, dp, stage, step"},
	{"kernal", "selector \"kernal\": unknown \"kernal\"; did you mean \"kernel\"?"},
	{"kernel,", "selector \"kernel,\": unknown \"\"; known are kernel, collective, p2p, copy, "
		    "host, op, all, range, rank, dp, stage, step"},
	{"rank", "selector \"rank\": rank needs a value, as rank:3"},
	{"op:", "selector \"op:\": op needs a value, as op:backward"},
	{"range", "selector \"range\": range needs a value, as range:DataLoader"},
	{"rank:x", "selector \"rank:x\": rank expects a number, got \"x\""},
	{"rank:-1", "selector \"rank:-1\": rank expects a number, got \"-1\""},
	{"all:x", "selector \"all:x\": all takes no such value"},
	{"kernel:", "selector \"kernel:\": kernel takes no such value"},
	{"all,all,all,all,all,all,all,all,all",
	 "selector \"all,all,all,all,all,all,all,all,all\": more than 8 terms"},
};

/* Families are what the table of devices calls so, copies and collectives among them; names are of
 * kernels. */
TEST(test_family_of_copies)
{
	const struct sc_replay_subject copy = {
		.kind = SC_REPLAY_COPY, .name = "Memcpy DtoD", .family = "copy"};
	struct sc_selector selector;

	ck_assert_int_eq(sc_selector_parse("kernel:copy", &arena, &selector, &err), 0);
	ck_assert(sc_selector_match(&selector, &copy));
	ck_assert_int_eq(sc_selector_parse("kernel:gemm", &arena, &selector, &err), 0);
	ck_assert(!sc_selector_match(&selector, &copy));
	ck_assert_int_eq(sc_selector_parse("kernel:memcpy", &arena, &selector, &err), 0);
	ck_assert(!sc_selector_match(&selector, &copy));
}

LOOP_TEST(test_refused, N_OF(refused))
{
	struct sc_selector selector = {.text = "untouched"};

	ck_assert_int_eq(sc_selector_parse(refused[_i].text, &arena, &selector, &err), -SC_EUSAGE);
	ck_assert_str_eq(err.text, refused[_i].message);
	ck_assert_str_eq(selector.text, "untouched");
}
