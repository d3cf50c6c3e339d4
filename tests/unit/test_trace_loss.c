/* What is missing of a trace, in a number and a sentence, from gaps, damage and ends. */
#include "runner.h"
#include "trace/format/trace_loss.h"

#define NO_GAP    \
	{         \
		0 \
	}
static const struct {
	struct sc_trace_gap gaps[3];
	bool partial;
	int64_t n_bad_frames;
	double frac;
	bool stands;
	const char *text;
} cases[] = {
	{{NO_GAP}, false, 0, 0, true, ""},
	{{{0, 5, 0, 10, "why"}},
	 false,
	 0,
	 0.005,
	 true,
	 "0.5 % of the events were lost (5 of 1000); reason: why; what is computed from it stands"},
	{{{0, 10000, 0, 10, "why"}, {3, 5900, 20, 30, "other"}},
	 false,
	 0,
	 0.9411,
	 false,
	 "94.1 % of the events were lost (15900 of 16895); reason: why; what is computed from it does "
	 "not stand"},
	/* Nobody counted: the share of the time, each moment once. */
	{{{0, -1, 0, 100, "why"}, {3, -1, 50, 200, "other"}},
	 false,
	 0,
	 0.2,
	 false,
	 "about 20 % of the events were lost (249 of 1244); reason: why; what is computed from it does "
	 "not stand"},
	{{{0, -1, 100, 105, "why"}},
	 false,
	 0,
	 0.005,
	 true,
	 "about 0.5 % of the events were lost (5 of 1000); reason: why; what is computed from it stands"},
	/* After the last event: the recording went on. */
	{{{0, -1, 1000, 2000, "why"}},
	 false,
	 0,
	 0.5,
	 false,
	 "about 50 % of the events were lost (995 of 1990); reason: why; what is computed from it does "
	 "not stand"},
	{{{0, -1, 7, 7, "why"}},
	 false,
	 0,
	 0,
	 false,
	 "events were lost, how many is not known; reason: why; what is computed from it does not stand"},
	{{{0, 5, 0, 10, "why"}, {0, -1, 7, 7, "other"}},
	 false,
	 0,
	 0.005,
	 false,
	 "more than 0.5 % of the events were lost (5 of 1000); reason: why; what is computed from it does "
	 "not stand"},
	{{NO_GAP},
	 true,
	 0,
	 0,
	 true,
	 "the trace ends early; reason: the recording was not ended; what is computed from it stands for "
	 "what is there"},
	{{{0, 995, 0, 10, "why"}},
	 true,
	 0,
	 0.5,
	 false,
	 "50 % of the events were lost (995 of 1990), and the trace ends early; reason: the recording was "
	 "not ended; what is computed from it does not stand"},
	{{NO_GAP},
	 false,
	 90,
	 0.9,
	 false,
	 "about 90 % of the events were lost (8955 of 9950); reason: damaged frames; what is computed from "
	 "it does not stand"},
	/* Next to all of the time: an estimate that no integer holds. */
	{{{0, -1, 1000, INT64_MAX, "why"}},
	 false,
	 0,
	 0,
	 false,
	 "events were lost, how many is not known; reason: why; what is computed from it does not stand"},
	{{{0, INT64_MAX, 0, 10, "why"}},
	 false,
	 0,
	 0,
	 false,
	 "events were lost, how many is not known; reason: why; what is computed from it does not stand"},
};

LOOP_TEST(test_one, N_OF(cases))
{
	struct sc_trace trace = {.path = "run/a.sctrace",
				 .partial = cases[_i].partial,
				 .n_bad_frames = cases[_i].n_bad_frames};
	const struct sc_trace_info info = {.counts.total = 995, .last_ns = 1000, .n_frames = 10};
	struct sc_trace_loss loss;
	struct sc_strbuf text = {0};

	for (int i = 0; i < 3 && cases[_i].gaps[i].reason; i++)
		SC_VEC_PUSH(&trace.gaps, cases[_i].gaps[i]);
	sc_trace_loss(&trace, &info, &loss);
	sc_trace_loss_text(&loss, &text);
	ck_assert_double_eq_tol(sc_trace_loss_frac(&loss), cases[_i].frac, 0.001);
	ck_assert_int_eq(sc_trace_loss_stands(&loss), cases[_i].stands);
	ck_assert_str_eq(sc_strbuf_get(&text), cases[_i].text);
	sc_strbuf_clear(&text);
	sc_trace_loss_warning(&loss, &text);
	ck_assert_int_eq(strncmp(sc_strbuf_get(&text), "run/a.sctrace: ", 15) == 0,
			 loss.n_files == 1);
	sc_strbuf_release(&text);
	SC_VEC_RELEASE(&trace.gaps);
}
