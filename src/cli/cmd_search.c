/* stepcast search: the best split of a model over GPUs; stepcast scale: at each number of GPUs. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/ranks.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "core/config/config.h"
#include "lib/options.h"
#include "lib/predict_run.h"
#include "report/config_export.h"
#include "report/config_show.h"
#include "study/search/split_search.h"

enum { MAX_GPUS = 1 << 24, MAX_TEXT = 24 };

/* "64:2048", "64"; NULL is an error too. */
static int cli_parse_gpus(const char *text, int64_t *from, int64_t *to, struct sc_err *err)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	char first[MAX_TEXT];
	size_t n;

	if (!text)
		return sc_err_set(err, SC_EUSAGE, "scale needs --gpus FROM:TO, as 64:2048");
	n = strcspn(text, ":");
	snprintf(first, sizeof(first), "%.*s", n < sizeof(first) ? (int)n : 0, text);
	if (sc_parse_int(first, from) && sc_parse_int(colon ? colon + 1 : first, to) &&
	    *from >= 1 && *to >= *from && *to <= MAX_GPUS)
		return 0;
	return sc_err_set(err, SC_EUSAGE,
			  "--gpus: expected N or FROM:TO, as 64 or 64:2048, got \"%.64s\"", text);
}

struct search_args {
	struct sc_common common;
	struct sc_arg_list sets, fixed, chosen;
	struct sc_cost_args cost;
	const char *objective, *gpus, *devices, *cases, *report, *to;
	double memory_margin, time_limit_s;
	int all, given, weak, json; /* given, weak: of scale */
	int64_t jobs, confidence;
};

#define SC_ARGS struct search_args
#define GPUS_OPTION \
	SC_OPT_TEXT(gpus, "gpus", "N|FROM:TO", "N GPUs, or FROM, twice as many, and so on up to TO")
#define MARGIN_OPTION                                                  \
	SC_OPT_NUMBER(memory_margin, "memory-margin", "SHARE", 0, 0.9, \
		      "share of a GPU's memory that stays free (default: 0.05)")
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_LIST(chosen, "choose", "KEY[=A,B,...]",
		    "search this key too: these values, or its usual ones; may be given again"),
	SC_OPT_LIST(fixed, "fix", "KEY=VALUE", "do not search this key; may be given again"),
	SC_OPT_FLAG(all, "all", "search the whole split, though the config gives it"),
	GPUS_OPTION,
	SC_OPT_TEXT(devices, "device", "A,B,...", "GPUs to choose from"),
	SC_OPT_TEXT(
		objective, "objective", "WHAT[,WHAT]",
		"time (default), throughput (per GPU), cost or energy; two give their Pareto front"),
	SC_OPT_COSTS(cost),
	MARGIN_OPTION,
	SC_OPT_TIME_LIMIT(time_limit_s,
			  "stop then, with the best so far and how far it can be from the best"),
	SC_OPT_OUT(cases, "out-cases", "FILE.csv",
		   "write every candidate: state, floor, memory, time"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_TEXT(to, "to", "PROGRAM",
		    "then print the best as megatron, torchtitan or deepspeed is told it"),
	SC_OPT_JSON(json),
	SC_OPT_REPORT(report),
	SC_OPT_SET(sets),
	SC_OPT_JOBS(jobs),
	{0},
};

/* ---- what is asked ---- */

static int find_objective(const char *name, enum sc_search_objective *out, struct sc_err *err)
{
	for (int i = 0; sc_search_objective_names[i]; i++) {
		if (strcmp(name, sc_search_objective_names[i]) == 0) {
			*out = (enum sc_search_objective)i;
			return 0;
		}
	}
	return sc_err_set(err, SC_EUSAGE,
			  "--objective: expected time, throughput, cost or energy, or two of them "
			  "with a comma, got \"%.64s\"",
			  name);
}

static int parse_objectives(const char *text, struct sc_arena *arena, struct sc_search *out,
			    struct sc_err *err)
{
	const char *comma = text ? strchr(text, ',') : NULL;
	int rc = 0;

	out->pareto = comma != NULL;
	if (text)
		rc = find_objective(sc_arena_strndup(arena, text, strcspn(text, ",")),
				    &out->objective[0], err);
	if (rc || !comma)
		return rc;
	rc = find_objective(comma + 1, &out->objective[1], err);
	if (rc == 0 && out->objective[0] == out->objective[1])
		return sc_err_set(err, SC_EUSAGE, "--objective: twice the same");
	return rc;
}

/* "64:2048" as "gpus=64,128,...". */
static int parse_gpus(const char *text, struct sc_arena *arena, const char **out,
		      struct sc_err *err)
{
	struct sc_strbuf list = {0};
	int64_t from, to;
	int rc = cli_parse_gpus(text, &from, &to, err);

	if (rc)
		return rc;
	sc_strbuf_append(&list, "gpus=");
	for (int64_t n = from; n <= to; n *= 2)
		sc_strbuf_printf(&list, "%s%lld", n > from ? "," : "", (long long)n);
	*out = sc_arena_strdup(arena, sc_strbuf_get(&list));
	sc_strbuf_release(&list);
	return 0;
}

static int list_chosen(const struct search_args *args, struct sc_arena *arena,
		       struct sc_search *out, struct sc_err *err)
{
	const char **chosen = sc_arena_calloc(arena, args->chosen.n + 2, sizeof(*chosen));
	int rc = 0;

	for (size_t i = 0; i < args->chosen.n; i++)
		chosen[i] = args->chosen.at[i];
	out->chosen = chosen;
	if (args->devices)
		chosen[out->n_chosen++] = sc_arena_printf(arena, "cluster.gpu=%s", args->devices);
	if (args->gpus)
		rc = parse_gpus(args->gpus, arena, &chosen[out->n_chosen++], err);
	return rc;
}

static struct sc_progress *begin_progress(void *ctx, const char *title, size_t total)
{
	const struct search_args *args = ctx;

	return sc_cli_progress(&args->common, title, total);
}

/* ---- what is answered ---- */

static int best_request(const struct sc_search_result *r, struct sc_cli_call *call,
			struct sc_request *out, struct sc_err *err)
{
	const struct sc_csv *cases = &r->cases;
	struct sc_config config = *r->search->base;
	int rc = 0;

	/* The measured time and its notes belong to the config that was searched alone. */
	config.measured_ms = 0;
	config.notes = NULL;
	for (size_t i = 0; i < cases->n_cols && rc == 0; i++) {
		const struct sc_setting setting = {
			cases->header[i], sc_csv_cell(cases, r->shown[0].row, i), "search"};

		rc = sc_config_set(&config, &setting, call->arena, err);
	}
	return rc ? rc : sc_config_resolve(&config, call->catalog, config.file, out, err);
}

/* The best as a config that predict takes. */
static int write_best(const struct sc_search_result *r, const char *path, struct sc_cli_call *call,
		      struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(call->arena, 1, sizeof(*request));
	struct sc_strbuf text = {0};
	int rc = best_request(r, call, request, err);

	if (rc == 0) {
		request->config.parallel.dp = SC_NOT_GIVEN; /* follows from gpus */
		sc_config_show(request, &text);
		rc = sc_cli_write_text(path, &text, err);
	}
	sc_strbuf_release(&text);
	return rc;
}

/* The best in another program's words, behind the answer. */
static int print_best(const struct sc_search_result *r, const char *to, struct sc_cli_call *call,
		      struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(call->arena, 1, sizeof(*request));
	struct sc_strbuf text = {0};
	int rc = best_request(r, call, request, err);

	if (rc == 0)
		rc = sc_cli_export(call, request, to, &text, err);
	if (rc == 0)
		printf("\n%s", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return rc;
}

static struct sc_search search_of(struct search_args *args, struct sc_cli_call *call)
{
	return (struct sc_search){
		.all = args->all,
		.fixed = args->fixed.at,
		.n_fixed = args->fixed.n,
		.chosen = args->chosen.at,
		.n_chosen = args->chosen.n,
		.confidence_pct = (int)args->confidence,
		.memory_margin = args->memory_margin,
		.n_jobs = sc_cli_jobs(call, args->jobs),
		.time_limit_s = args->time_limit_s,
		.begin_progress = begin_progress,
		.ctx = args,
		.ranks = call->line->ranks,
	};
}

/* The config that is searched, and what its runs cost. */
static int read_base(const struct search_args *args, struct sc_cli_call *call,
		     struct sc_config *config, struct sc_search *search, struct sc_err *err)
{
	const struct sc_arg_list *a = &args->sets, *b = &args->fixed;
	struct sc_arg_list sets = {sc_arena_calloc(call->arena, a->n + b->n + 1, sizeof(*sets.at)),
				   a->n + b->n};
	int64_t to;
	int rc;

	for (size_t i = 0; i < sets.n; i++)
		sets.at[i] = i < a->n ? a->at[i] : b->at[i - a->n];
	rc = sc_cli_config(args->common.words.at[0], &sets, call->arena, config, err);
	if (rc == 0 && args->gpus &&
	    config->gpus <= 0) /* --gpus names it where the file does not */
		rc = cli_parse_gpus(args->gpus, &config->gpus, &to, err);
	if (rc == 0)
		rc = sc_cost_args_read(&args->cost, config, call->arena, &search->size,
				       &search->has_costs, err);
	if (rc)
		return rc;
	if (args->devices && !args->cost.prices.n) /* the config's price is of its own GPU */
		search->has_costs = false;
	if (search->all) { /* what a split that is searched decides */
		config->parallel.dp = config->parallel.etp = config->parallel.shard_ranks =
			SC_NOT_GIVEN;
		config->parallel.stage_layers.n = 0;
		config->parallel.layout = NULL;
	}
	search->base = config;
	search->stop = sc_cli_catch_stop();
	return 0;
}

static int run_args(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	struct search_args *args = into;
	struct sc_search search = search_of(args, call);
	struct sc_search_result result;
	struct sc_config config;
	int rc = parse_objectives(args->objective, call->arena, &search, err);

	if (rc == 0 && args->to && args->json)
		rc = sc_err_set(
			err, SC_EUSAGE,
			"--to prints behind the text, not beside --json; config export takes "
			"what -o writes");
	if (rc == 0 && args->to && sc_export_target(args->to, err) < 0)
		rc = -(int)SC_EUSAGE;
	if (rc == 0)
		rc = list_chosen(args, call->arena, &search, err);
	if (rc == 0)
		rc = read_base(args, call, &config, &search, err);
	if (rc == 0)
		rc = sc_search_run(&search, call->arena, &result, err);
	if (rc || sc_ranks_helps(call->line->ranks))
		return rc;
	if (args->cases)
		rc = sc_cli_write(args->cases, sc_search_forms.csv, &result, err);
	if (rc == 0 && strcmp(args->common.output, "-") != 0)
		rc = write_best(&result, args->common.output, call, err);
	if (rc == 0)
		rc = sc_cli_give(call, &sc_search_forms, &result, err);
	return rc || !args->to ? rc : print_best(&result, args->to, call, err);
}

const struct sc_command sc_command_search = {
	.name = "search",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "find the best split of a model over GPUs, proven under the model",
	.synopsis =
		"CONFIG [--choose KEY[=A,B]]... [--fix KEY=VALUE]... [--all] [--gpus FROM:TO] "
		"[--device A,B] [--objective WHAT[,WHAT]] [--price USD|GPU=USD]... [--tokens N] "
		"[--time-limit S] [-o BEST.yaml] [--report FILE.html] [--json]",
	.details =
		"Searches what the CONFIG leaves open of tp, cp, pp, ep, etp, virtual stages, sharding, sequence parallelism, "
		"micro-batch and recomputation. Keys that it gives stay as they are, unless --choose names them or --all "
		"opens them. --choose also opens other keys, such as parallel.schedule.\n\n"
		"The search leaves out candidates that need more than 95 % of the memory (--memory-margin 0.05). For each "
		"other one it computes a floor without simulating: the passes of the busiest GPU and the ends of the "
		"pipeline. It does not simulate a candidate whose floor is above the eleven best, so the best is the best "
		"of all candidates under the model.\n\n"
		"The answer lists the eleven fastest that differ, in how many of 40 draws of model error each is the best, "
		"and its expected regret: how much longer it takes, on average, than the best of a draw. The best is the "
		"one with the least expected regret. What each setting is worth follows. -o writes the best as a config "
		"that leaves dp open, since dp follows from gpus.\n\n"
		"SIGINT and --time-limit end the search with the best so far, and say how far that can be from the best. "
		"If any candidate fits, at least one is predicted; if none does, the exit code is 3.\n\n"
		"Under mpirun the processes share the candidates; the answer is the same as that of one process.\n\n"
		"  stepcast search x.yaml --all --memory-margin 0.1 -o best.yaml\n"
		"  stepcast search x.yaml --all --gpus 64:512 --objective time,cost --price h100-sxm-80gb=2.5",
	.output_arg = "BEST.yaml",
	.output_help = "write the best as a config that predict takes",
	.words = "file",
	.options = OPTIONS,
	.shares = true,
	.args_bytes = sizeof(struct search_args),
	.defaults = &(const struct search_args){.memory_margin = SC_MEMORY_MARGIN_FRAC,
						.confidence = SC_CONFIDENCE},
	.run = run_args,
};

/* stepcast scale: the best split at each number of GPUs. */

static const struct sc_cli_option SCALE_OPTIONS[] = {
	GPUS_OPTION,
	SC_OPT_FLAG(weak, "weak", "the batch grows with the GPUs (default: it stays)"),
	SC_OPT_FLAG(given, "given",
		    "keep what the config gives of the split (default: search all of it)"),
	SC_OPT_LIST(chosen, "choose", "KEY[=A,B,...]", "search this key too; may be given again"),
	SC_OPT_LIST(fixed, "fix", "KEY=VALUE", "do not search this key; may be given again"),
	MARGIN_OPTION,
	SC_OPT_COSTS(cost),
	SC_OPT_TIME_LIMIT(time_limit_s,
			  "stop each size then, with its best so far, which is not proven"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_JSON(json),
	SC_OPT_REPORT(report),
	SC_OPT_SET(sets),
	SC_OPT_JOBS(jobs),
	{0},
};

static int run_scale(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	struct search_args *args = into;
	struct sc_search search = search_of(args, call);
	struct sc_scaling scaling = {.search = &search, .weak = args->weak};
	struct sc_config config;
	int64_t from, to, *sizes = sc_arena_calloc(call->arena, 64, sizeof(*sizes));
	int rc = cli_parse_gpus(args->gpus, &from, &to, err);

	for (int64_t n = from; rc == 0 && n <= to && scaling.n < 64; n *= 2)
		sizes[scaling.n++] = n;
	scaling.sizes = sizes;
	search.all = !args->given;
	if (rc == 0)
		rc = read_base(args, call, &config, &search, err);
	if (rc == 0)
		rc = sc_scaling_run(&scaling, call->arena, err);
	if (rc || sc_ranks_helps(call->line->ranks))
		return rc;
	return sc_cli_give(call, &sc_scaling_forms, &scaling, err);
}

const struct sc_command sc_command_scale = {
	.name = "scale",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "strong or weak scaling, with the best split at each number of GPUs",
	.synopsis =
		"CONFIG --gpus FROM:TO [--weak] [--given] [--choose KEY[=A,B]]... [--fix KEY=VALUE]... "
		"[--price USD|GPU=USD]... [--tokens N] [--report FILE.html] [--json]",
	.details =
		"Searches the split (stepcast search) at FROM GPUs, twice as many, and so on to TO. Strong scaling keeps "
		"the batch; --weak takes the batch of the CONFIG at FROM and lets it grow with the GPUs. Speedup and "
		"efficiency compare the throughput with that of the first size at which something fits and leaves 5 % of "
		"the memory free (--memory-margin 0.05).\n\n"
		"Under mpirun the processes share the candidates of each size; the answer is the same as that of one "
		"process. If one dies, the sizes that follow are not proven.\n\n"
		"  stepcast scale configs/examples/gpt-175b-selene.yaml --gpus 64:4096\n"
		"  stepcast scale x.yaml --gpus 8:512 --weak --fix parallel.sharding=fsdp",
	.words = "file",
	.options = SCALE_OPTIONS,
	.shares = true,
	.args_bytes = sizeof(struct search_args),
	.defaults = &(const struct search_args){.memory_margin = SC_MEMORY_MARGIN_FRAC,
						.confidence = SC_CONFIDENCE},
	.run = run_scale,
};
