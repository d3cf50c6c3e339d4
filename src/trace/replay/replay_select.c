/* Selectors of operations: parsed once, matched against every operation. */
#include "trace/replay/replay_select.h"

#include <string.h>
#include <strings.h>

#include "base/fields.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "trace/graph/build_trace.h"
#include "trace/graph/kernel_family.h"

enum what {
	IS_KERNEL,
	IS_COLLECTIVE,
	IS_P2P,
	IS_COPY,
	IS_HOST,
	IS_ANY,
	IS_OP, /* any kind, by name */
	IN_RANGE,
	AT_RANK,
	AT_DP,
	AT_STAGE,
	AT_STEP,
	N_WHAT
};
enum { NAME, FAMILY }; /* what a text is: a part of a name, or a family of kernels */
static const char *const WORDS[N_WHAT] = {"kernel", "collective", "p2p",  "copy", "host",  "all",
					  "op",     "range",      "rank", "dp",   "stage", "step"};

static int unknown_word(const char *word, const char *text, struct sc_err *err)
{
	const char *near = sc_nearest(word, WORDS, N_WHAT);

	if (near)
		return sc_err_set(err, SC_EUSAGE,
				  "selector \"%.64s\": unknown \"%.32s\"; did you mean \"%s\"?",
				  text, word, near);
	return sc_err_set(err, SC_EUSAGE,
			  "selector \"%.64s\": unknown \"%.32s\"; known are kernel, collective, "
			  "p2p, copy, host, op, all, range, rank, dp, stage, step",
			  text, word);
}

static bool is_family(const char *text)
{
	for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
		if (strcasecmp(sc_kernel_family_name((enum sc_kernel_family)f), text) == 0)
			return true;
	return false;
}

static int parse_term(char *term, const char *text, struct sc_selector_term *out,
		      struct sc_err *err)
{
	char *value = strchr(term, ':');
	int what = 0;

	if (value)
		*value++ = '\0';
	while (what < N_WHAT && strcmp(term, WORDS[what]) != 0)
		what++;
	if (what == N_WHAT)
		return unknown_word(term, text, err);
	*out = (struct sc_selector_term){.what = (uint8_t)what, .text = value};
	if (what >= IS_OP && (!value || !*value))
		return sc_err_set(err, SC_EUSAGE, "selector \"%.64s\": %s needs a value, as %s",
				  text, term,
				  what == IS_OP      ? "op:backward"
				  : what == IN_RANGE ? "range:DataLoader"
						     : "rank:3");
	if (value && (!*value || what == IS_ANY))
		return sc_err_set(err, SC_EUSAGE, "selector \"%.64s\": %s takes no such value",
				  text, term);
	if (what < AT_RANK && value && is_family(value))
		out->number = FAMILY;
	if (what >= AT_RANK && (!sc_parse_int(value, &out->number) || out->number < 0))
		return sc_err_set(err, SC_EUSAGE,
				  "selector \"%.64s\": %s expects a number, got \"%.32s\"", text,
				  term, value);
	return 0;
}

int sc_selector_parse(const char *text, struct sc_arena *arena, struct sc_selector *out,
		      struct sc_err *err)
{
	char *rest = sc_arena_strdup(arena, text);
	struct sc_selector selector = {.text = sc_arena_strdup(arena, text)};
	int rc;

	while (rest) {
		char *term = rest;

		rest = strchr(term, ',');
		if (rest)
			*rest++ = '\0';
		if (selector.n == SC_SELECTOR_MAX_TERMS)
			return sc_err_set(err, SC_EUSAGE, "selector \"%.64s\": more than %d terms",
					  text, SC_SELECTOR_MAX_TERMS);
		rc = parse_term(term, text, &selector.terms[selector.n++], err);
		if (rc)
			return rc;
	}
	*out = selector;
	return 0;
}

/* Is any range around it named so? */
static bool is_in_range(const struct sc_replay_subject *s, const char *text)
{
	uint32_t range = s->run && s->run->ranges.n ? s->range : 0;

	while (range && !sc_text_has(sc_trace_run_name(s->run, s->run->ranges.at[range].name), text,
				     strlen(text)))
		range = s->run->ranges.at[range].parent;
	return range != 0;
}

static bool match_term(const struct sc_selector_term *term, const struct sc_replay_subject *s)
{
	switch ((enum what)term->what) {
	case AT_RANK:
		return s->rank == term->number;
	case AT_DP:
		return s->dp_rank == term->number;
	case AT_STAGE:
		return s->stage == term->number;
	case AT_STEP:
		return s->step == term->number;
	case IS_ANY:
		return true;
	case IN_RANGE:
		return is_in_range(s, term->text);
	case IS_OP:
		break;
	case IS_KERNEL: /* families are what a replay's table of devices calls so: copies are there,
			   too */
		if (term->text && term->number == FAMILY && s->family)
			return strcasecmp(s->family, term->text) == 0;
		/* fall through */
	default:
		if ((int)s->kind != (int)term->what)
			return false;
	}
	if (!term->text)
		return true;
	return sc_text_has(s->name, term->text, strlen(term->text));
}

bool sc_selector_match(const struct sc_selector *selector, const struct sc_replay_subject *subject)
{
	bool in_range = false, has_kind = false;

	for (size_t i = 0; i < selector->n; i++) {
		if (!match_term(&selector->terms[i], subject))
			return false;
		in_range = in_range || selector->terms[i].what == IN_RANGE;
		has_kind = has_kind || selector->terms[i].what <= IS_OP;
	}
	return !in_range || has_kind || subject->kind == SC_REPLAY_HOST;
}
