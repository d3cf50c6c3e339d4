/* stepcast compare: configs and recordings side by side. */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "study/compare/compare.h"

struct compare_args {
	struct sc_common common;
	struct sc_arg_list sets;
	const char *report;
	int64_t confidence;
	int json;
};

#define SC_ARGS struct compare_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_SET(sets),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_REPORT(report),
	SC_OPT_JSON(json),
	{0},
};

/* Each warning says which input it is of. */
static void warn_compared(const struct sc_common *common, const struct sc_compared *c)
{
	const struct sc_warnings *warnings =
		c->config ? &c->by->prediction.warnings : &c->recording.warnings;
	struct sc_strbuf loss = {0};

	sc_trace_loss_warning(&c->recording.loss, &loss);
	if (loss.n)
		sc_cli_warn(common, "%s: %s", c->label, sc_strbuf_get(&loss));
	sc_strbuf_release(&loss);
	for (size_t i = 0; i < warnings->n; i++)
		sc_cli_warn(common, "%s: %s", c->label, warnings->text[i]);
}

static bool are_like(const struct sc_common *common, const struct sc_compared *a,
		     const struct sc_compared *b)
{
	const struct sc_model *m, *n;

	if (!a->by || !b->by)
		return true;
	m = &a->by->request.config.model;
	n = &b->by->request.config.model;
	if (m->family == n->family && m->layers == n->layers && m->hidden == n->hidden)
		return true;
	sc_cli_warn(common,
		    "%s (%s, %lld layers, hidden %lld) and %s (%s, %lld layers, hidden %lld) are "
		    "unlike models: their times say nothing of which machine or split is better; "
		    "compare MFU",
		    a->label, sc_family_name(m->family), (long long)m->layers, (long long)m->hidden,
		    b->label, sc_family_name(n->family), (long long)n->layers,
		    (long long)n->hidden);
	return false;
}

/* Labels each input with as much of the end of its path as tells it from the others. */
static void put_labels(const struct sc_compare *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const char *name = all->at[i].name, *end = sc_file_name(name);

		for (size_t k = 0; k < all->n; k++)
			while (end > name && k != i && strcmp(all->at[k].name, name) != 0 &&
			       sc_ends_with(all->at[k].name, end))
				for (end--; end > name && end[-1] != '/';)
					end--;
		all->at[i].label = end;
	}
}

static int load_compared(const struct compare_args *args, struct sc_compare *out,
			 struct sc_arena *arena, struct sc_err *err)
{
	struct sc_config *configs = sc_arena_calloc(arena, out->n, sizeof(*configs));
	size_t n_configs = 0;
	struct stat st;
	int rc = 0;

	out->at = sc_arena_calloc(arena, out->n, sizeof(*out->at));
	for (size_t i = 0; i < out->n && rc == 0; i++) {
		const char *path = args->common.words.at[i];

		size_t n = strlen(path);

		/* The name is the column's: it has no slashes, which a shell's completion puts
		 * after a folder. */
		while (n > 1 && path[n - 1] == '/')
			n--;
		out->at[i].name = sc_arena_strndup(arena, path, n);
		if (sc_ends_with(path, SC_TRACE_SUFFIX) ||
		    (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
			continue; /* a recording */
		out->at[i].config = &configs[n_configs++];
		rc = sc_cli_config(path, &args->sets, arena, &configs[n_configs - 1], err);
	}
	if (rc == 0 && n_configs == 0 && args->sets.n)
		return sc_err_set(err, SC_EUSAGE,
				  "--set changes configs, and all given are recordings");
	return rc;
}

static int compare(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct compare_args *args = into;
	struct sc_arena *arena = call->arena;
	struct sc_compare all = {.n = args->common.words.n,
				 .arena = arena,
				 .confidence_pct = (int)args->confidence,
				 .like_models = true,
				 .n_jobs = sc_cpu_count()};
	size_t n_stdin = 0;
	int rc;

	if (all.n < 2 || all.n > SC_COMPARE_MAX)
		return sc_err_set(err, SC_EUSAGE, "compare needs 2 to %d CONFIGs or DIRs, got %zu",
				  SC_COMPARE_MAX, all.n);
	for (size_t i = 0; i < all.n; i++)
		n_stdin += strcmp(args->common.words.at[i], "-") == 0;
	if (n_stdin > 1)
		return sc_err_set(err, SC_EUSAGE, "- is stdin, which can be read once");
	rc = load_compared(args, &all, arena, err);
	if (rc)
		return rc;
	put_labels(&all);
	rc = sc_compare_run(&all, call->catalog, err);
	for (size_t i = 0; rc == 0 && i < all.n; i++)
		warn_compared(&args->common, &all.at[i]);
	for (size_t i = 1; rc == 0 && i < all.n; i++)
		all.like_models &= are_like(&args->common, &all.at[0], &all.at[i]);
	if (rc == 0)
		rc = sc_cli_give(call, &sc_compare_forms, &all, err);
	sc_compare_release(&all);
	return rc;
}

const struct sc_command sc_command_compare = {
	.name = "compare",
	.summary = "configs and recordings side by side: what differs, and what it does",
	.synopsis = "CONFIG|DIR CONFIG|DIR... [--set PATH=VALUE]... [--json] [--report FILE.html]",
	.details =
		"Shows the keys in which the configs differ, their times by what takes them, and their memory. The ratio "
		"of the times has a band of its own: stepcast draws the speeds of kernels, memory, links, network and host "
		"100 times, the same for all configs, so that errors that all share cancel.\n\n"
		"A DIR of traces (see stepcast import), or one *.sctrace file, stands for its recorded iterations: their "
		"mean, where the time goes in the iteration of median length, what each family of kernels takes, and how "
		"the critical paths differ. The band of its ratio comes from resampling its iterations. --set leaves "
		"recordings alone.\n\n"
		"  stepcast compare a.yaml b.yaml\n"
		"  stepcast compare traces/job traces/straggler",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct compare_args),
	.defaults = &(const struct compare_args){.confidence = SC_CONFIDENCE},
	.run = compare,
};
