/* The run of a sharding study: it reads constraints, from options and a file with one a line,
 * gathers the plans to compare, and makes the report. */
#include "lib/shard_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/units.h"
#include "study/shard/shard.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_study.h"

typedef SC_VEC(struct sc_shard_constraint) sc_constraints;
/* A constraint comes from an option or a line of a file, which errors name. */
struct sc_constraint_at {
	const char *file; /* NULL: the option --constraint */
	unsigned line;
};

enum { MAX_WORDS = 8, MAX_TEXT = 512, MAX_BYTES = 16 << 20 };

struct parser {
	const struct sc_constraint_at *at;
	const struct sc_shard_problem *problem;
	char text[MAX_TEXT];
	char *words[MAX_WORDS];
	size_t n_words;
	struct sc_err *err;
};

static int words_fail(const struct parser *p, size_t word, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int words_fail(const struct parser *p, size_t word, const char *fmt, ...)
{
	char text[sizeof(p->err->text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (p->at->file)
		return sc_err_at(p->err, SC_EVALUE, p->at->file, p->at->line,
				 word < p->n_words ? (unsigned)(p->words[word] - p->text) + 1 : 0,
				 "%s", text);
	return sc_err_set(p->err, SC_EUSAGE, "--constraint: %s", text);
}

static int split_words(struct parser *p, const char *text)
{
	char *save = NULL, *word;

	if (strlen(text) >= sizeof(p->text))
		return words_fail(p, 0, "longer than %d bytes", MAX_TEXT - 1);
	memcpy(p->text, text, strlen(text) + 1);
	for (word = strtok_r(p->text, " \t\r", &save); word;
	     word = strtok_r(NULL, " \t\r", &save)) {
		if (p->n_words == MAX_WORDS)
			return words_fail(p, 0, "more than %d words", MAX_WORDS);
		p->words[p->n_words++] = word;
	}
	return 0;
}

static int find_table(const struct parser *p, size_t word, uint32_t *out)
{
	for (uint32_t i = 0; i < p->problem->n_tables; i++) {
		if (strcmp(p->problem->tables[i].name, p->words[word]) == 0) {
			*out = i;
			return 0;
		}
	}
	return words_fail(p, word, "the model has no table \"%.64s\"", p->words[word]);
}

static int find_name(const struct parser *p, size_t word, const struct sc_name *names,
		     const char *value, int *out)
{
	struct sc_err own = {.code = SC_OK};

	return sc_enum_parse(names, value, out, &own) ? words_fail(p, word, "%s", own.text) : 0;
}

static bool has_key(const char *word, const char *key)
{
	size_t n = strlen(key);

	return strncmp(word, key, n) == 0 && word[n] == '=';
}

static int parse_place(const struct parser *p, size_t word, struct sc_shard_constraint *out)
{
	const char *text = p->words[word], *value = strchr(text, '=');
	bool is_rank = has_key(text, "rank"), is_type = has_key(text, "type");
	int64_t rank;

	if (!is_rank && !is_type && !has_key(text, "tier"))
		return words_fail(p, word, "expected rank=, type= or tier=, got \"%.40s\"", text);
	value++;
	if ((is_rank ? out->rank : is_type ? out->type : out->tier) >= 0)
		return words_fail(p, word, "%.5s is given twice", text);
	if (is_type)
		return find_name(p, word, sc_shard_type_names, value, &out->type);
	if (!is_rank)
		return find_name(p, word, sc_tier_names, value, &out->tier);
	if (!sc_parse_int(value, &rank) || rank < 0 || rank >= p->problem->world)
		return words_fail(p, word, "expected rank=0 to %u, got \"%.40s\"",
				  p->problem->world - 1, value);
	out->rank = (int32_t)rank;
	return 0;
}

/* "pin TABLE rank=3 type=table_wise tier=fused", "forbid TABLE type=row_wise", "together A B",
 * "apart A B". A TABLE that ends in * is all that begin so (pin, forbid). Appends. */
static int constraint_parse(const char *text, const struct sc_constraint_at *at,
			    const struct sc_shard_problem *problem, sc_constraints *out,
			    struct sc_err *err)
{
	struct sc_shard_constraint c = {.rank = -1, .type = -1, .tier = -1};
	struct parser p = {.at = at, .problem = problem, .err = err};
	size_t n_before = out->n, n_prefix;
	int rc = split_words(&p, text), kind = -1;
	bool is_pair;

	if (rc)
		return rc;
	if (p.n_words < 2 || sc_enum_parse(sc_constraint_kind_names, p.words[0], &kind, NULL))
		return words_fail(&p, 0, "expected pin, forbid, together or apart and a table");
	c.kind = (enum sc_constraint_kind)kind;
	is_pair = kind == SC_TOGETHER || kind == SC_APART;
	if (is_pair && p.n_words != 3)
		return words_fail(&p, 0, "%s needs two tables", p.words[0]);
	if (p.n_words < 3)
		return words_fail(&p, 0, "%s needs a table and rank=, type= or tier=", p.words[0]);
	for (size_t i = 2; i < p.n_words && rc == 0; i++)
		rc = is_pair ? find_table(&p, i, &c.other) : parse_place(&p, i, &c);
	n_prefix = strlen(p.words[1]) - 1;
	if (rc == 0 && (is_pair || p.words[1][n_prefix] != '*')) {
		rc = find_table(&p, 1, &c.table);
		if (rc == 0 && is_pair && c.table == c.other)
			rc = words_fail(&p, 2, "%s needs two different tables", p.words[0]);
		if (rc == 0)
			SC_VEC_PUSH(out, c);
		return rc;
	}
	for (; rc == 0 && c.table < problem->n_tables; c.table++)
		if (strncmp(problem->tables[c.table].name, p.words[1], n_prefix) == 0)
			SC_VEC_PUSH(out, c);
	if (rc == 0 && out->n == n_before)
		return words_fail(&p, 1, "the model has no table \"%.64s\"", p.words[1]);
	return rc;
}

/* A file of them, one a line; empty lines and those that begin with # are passed over. */
static int constraints_load(const char *path, const struct sc_shard_problem *problem,
			    sc_constraints *out, struct sc_err *err)
{
	struct sc_constraint_at at = {.file = path};
	struct sc_source file;
	char *line, *next;
	int rc = sc_file_read(path, MAX_BYTES, &file, err);

	for (line = (char *)file.text; rc == 0 && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		at.line++;
		if (line[strspn(line, " \t\r")] != '\0' && line[strspn(line, " \t")] != '#')
			rc = constraint_parse(line, &at, problem, out, err);
	}
	sc_source_release(&file);
	return rc;
}

enum { MAX_SECONDS = 86400, MAX_TABLES = 1 << 20, MAX_SAMPLES = 1000000 };

#define SC_ARGS struct sc_shard_args
const struct sc_cli_option sc_shard_options[] = {
	SC_OPT_INS(plans, "plan", "FILE", "rank this plan; may be given again"),
	SC_OPT_NUMBER(
		seconds, "search", "SECONDS", 0, MAX_SECONDS,
		"search for a plan, for at most SECONDS; 0: the solver's plan alone, in which no step is simulated (default "
		"if no --plan and no --baseline is given: a descent by steps, the same on every machine)"),
	SC_OPT_TIME_LIMIT(seconds, "the same as --search"),
	SC_OPT_CHOICE(
		objective, "objective", "iteration|torchrec|hugectr", sc_objective_names,
		"what ranks the plans: the predicted step (default), or the busiest rank as that planner costs it"),
	SC_OPT_FLAG(
		device_constants, "device-constants",
		"torchrec: take the bandwidths of the config's GPU and cluster in place of its own"),
	SC_OPT_LIST(
		baselines, "baseline", "NAME",
		"rank this planner's plan, or all of them, or search: that of the search, beside theirs; may be given again"),
	SC_OPT_LIST(
		constraints, "constraint", "TEXT",
		"hold the search to a constraint: \"pin TABLE rank=R type=T tier=K\", \"forbid TABLE ...\", \"together A "
		"B\", \"apart A B\"; may be given again"),
	SC_OPT_IN(constraints_file, "constraints", "FILE", "constraints, one per line"),
	SC_OPT_IN(
		current, "current", "FILE",
		"rank this plan, and search from it within --max-moved-gib and --max-moved-tables"),
	SC_OPT_NUMBER(max_moved_gib, "max-moved-gib", "GIB", 0, 1e9,
		      "with --current: weights that may move (default: any)"),
	SC_OPT_INT(max_moved_tables, "max-moved-tables", "N", 0, MAX_TABLES,
		   "with --current: tables that may change (default: any)"),
	SC_OPT_IN(diff, "diff", "FILE", "say what changes from this plan to the best one"),
	SC_OPT_FLAG(pareto, "pareto", "the best cost for less and less GPU memory"),
	SC_OPT_INT(
		samples, "draws", "N", 0, MAX_SAMPLES,
		"draws of model error and drift for best %, regret and ties (default 1000, fewer for more than 4,000 tables, 200 for a plan alone; 0: none)"),
	SC_OPT_NUMBER(kernel_pct, "kernel-error", "PCT", 0, 100,
		      "one sigma of the kernels' model (default: the device's embedding spread)"),
	SC_OPT_NUMBER(collective_pct, "collective-error", "PCT", 0, 100,
		      "one sigma of each collective's model (default: the fabric's spread)"),
	SC_OPT_NUMBER(drift_pct, "drift", "PCT", 0, 100,
		      "one sigma of a table's lookups, from those given (default 10)"),
	SC_OPT_INT(seed, "seed", "N", 0, 1e15, "seed of all random draws (default 1)"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_REPORT(report),
	SC_OPT_SET(sets),
	SC_OPT_JSON(json),
	{0},
};

const struct sc_shard_args sc_shard_defaults = {
	.seconds = -1,
	.max_moved_gib = -1,
	.max_moved_tables = -1,
	.kernel_pct = -1,
	.collective_pct = -1,
	.drift_pct = -1,
	.seed = 1,
	.samples = -1,
	.confidence = SC_CONFIDENCE,
};

/* One sigma: what a kind of shard errs beyond its kernel's and its collective's model; how far
 * lookups drift from those given. Assumed, not measured. */
#define SHARD_ERROR_FRAC 0.05
#define DRIFT_FRAC 0.1
enum { DEFAULT_SAMPLES = 1000, SAMPLES_ALONE = 200, LEAST_SAMPLES = 100 };
/* Draws of tables that the default comes to at most. */
enum { MOST_DRAWS = 4000000 };

struct run {
	struct sc_shard_report report; /* what others see of it */
	const struct sc_shard_args *ask;
	struct sc_arena *arena;
	const struct sc_request *request;
	struct sc_objective objective;
	struct sc_study study;
	sc_constraints constraints;
	struct sc_shard_plan current, diff_plan;
	struct sc_shard_diff diff;
	struct sc_pareto pareto;
	bool has_search; /* among the baselines */
};

static int load_plan(struct run *s, const char *path, struct sc_shard_plan *out, struct sc_err *err)
{
	const struct sc_objective *objective = &s->objective;
	struct sc_shard_plan plan = {.world = 0};
	int rc = sc_shard_plan_load(path, &objective->tables, s->arena, &plan, err);

	if (rc)
		return rc;
	if (plan.world != objective->problem.world)
		rc = sc_err_at(err, SC_ECONFLICT, path, 0, 0,
			       "a plan for %u ranks; the config has %u GPUs", plan.world,
			       objective->problem.world);
	if (rc == 0 && plan.ranks_per_host == 0) {
		plan.ranks_per_host = objective->problem.ranks_per_host;
		rc = sc_shard_plan_check(&plan, err);
	}
	if (rc == 0)
		rc = sc_shard_plan_check_tables(&plan, &objective->tables, err);
	if (rc)
		sc_shard_plan_release(&plan);
	else
		*out = plan;
	return rc;
}

static double frac_given(double pct, double frac)
{
	return pct < 0 ? frac : pct / SC_PCT;
}

static void set_opts(struct run *s)
{
	const struct sc_shard_args *ask = s->ask;
	struct sc_study_opts *opts = &s->study.opts;
	const struct sc_request *request = s->request;
	int64_t samples = MOST_DRAWS / (int64_t)(s->objective.problem.n_tables + 1);

	samples = samples > DEFAULT_SAMPLES ? DEFAULT_SAMPLES
		  : samples < LEAST_SAMPLES ? LEAST_SAMPLES
					    : samples;
	opts->solve.seconds = ask->seconds < 0 ? 0 : ask->seconds;
	opts->solver_alone = ask->seconds >= 0 && !(ask->seconds > 0);
	opts->solve.seed = (uint64_t)ask->seed;
	opts->solve.watch = ask->watch;
	opts->solve.max_moved_bytes =
		ask->max_moved_gib < 0 ? -1 : ask->max_moved_gib * SC_BYTES_PER_GIB;
	opts->solve.max_moved_tables = ask->max_moved_tables;
	opts->confidence = (struct sc_confidence_opts){
		.samples = ask->samples < 0 ? samples : ask->samples,
		.seed = (uint64_t)ask->seed,
		.kernel_frac = frac_given(ask->kernel_pct, request->device.embedding.spread_frac),
		.collective_frac =
			frac_given(ask->collective_pct, request->fabric_profile.spread_frac),
		.shard_frac = SHARD_ERROR_FRAC,
		.drift_frac = frac_given(ask->drift_pct, DRIFT_FRAC),
		.rest_frac = request->device.gemm.spread_frac,
	};
	opts->samples_alone = ask->samples < 0 ? SAMPLES_ALONE : ask->samples;
}

static int read_constraints(struct run *s, struct sc_err *err)
{
	const struct sc_shard_args *ask = s->ask;
	const struct sc_constraint_at at = {.file = NULL};
	bool names_tier = false;
	int rc = 0;

	for (size_t i = 0; i < ask->constraints.n && rc == 0; i++)
		rc = constraint_parse(ask->constraints.at[i], &at, &s->objective.problem,
				      &s->constraints, err);
	if (rc == 0 && ask->constraints_file)
		rc = constraints_load(ask->constraints_file, &s->objective.problem, &s->constraints,
				      err);
	s->objective.problem.constraints = s->constraints.at;
	s->objective.problem.n_constraints = s->constraints.n;
	for (size_t i = 0; i < s->constraints.n; i++)
		names_tier = names_tier || s->constraints.at[i].tier >= 0;
	if (rc || !names_tier || s->objective.kind != SC_OBJECTIVE_ITERATION)
		return rc;
	sc_shard_problem_release(&s->objective.problem); /* made without them */
	return sc_iteration_problem(s->request, s->arena, &s->objective.problem, err);
}

static int add_baselines(struct run *s, struct sc_err *err)
{
	const struct sc_arg_list *names = &s->ask->baselines;
	int rc = 0;

	for (size_t i = 0; i < names->n && rc == 0 && !sc_search_is_ended(s->ask->watch); i++) {
		if (strcmp(names->at[i], "search") == 0) {
			s->has_search = true;
			continue;
		}
		if (strcmp(names->at[i], "all") != 0) {
			rc = sc_study_add_baseline(&s->study, names->at[i], err);
			continue;
		}
		for (const struct sc_start *start = sc_starts; start->name && rc == 0; start++)
			if (!start->is_search && !sc_search_is_ended(s->ask->watch))
				rc = sc_study_add_baseline(&s->study, start->name, err);
	}
	return rc;
}

static int add_plans(struct run *s, struct sc_err *err)
{
	const struct sc_shard_args *ask = s->ask;
	struct sc_shard_plan plan;
	bool is_asked; /* to search */
	int rc = 0;

	if (ask->current) {
		rc = load_plan(s, ask->current, &s->current, err);
		s->study.opts.solve.current = &s->current;
		if (rc == 0)
			rc = load_plan(s, ask->current, &plan, err);
		if (rc == 0) /* to stay may be best */
			sc_study_add_plan(&s->study, "current", &plan);
	} else if (ask->max_moved_gib >= 0 || ask->max_moved_tables >= 0) {
		return sc_err_set(err, SC_EUSAGE,
				  "--max-moved-gib and --max-moved-tables need --current");
	}
	for (size_t i = 0; i < ask->plans.n && rc == 0; i++) {
		rc = load_plan(s, ask->plans.at[i], &plan, err);
		if (rc == 0)
			sc_study_add_plan(&s->study, ask->plans.at[i], &plan);
	}
	if (rc == 0)
		rc = add_baselines(s, err);
	is_asked = ask->seconds >= 0 || s->has_search || ask->current ||
		   !(ask->plans.n || ask->baselines.n);
	if (rc == 0 && is_asked)
		rc = sc_study_search(&s->study, err);
	return rc ? rc : sc_study_rank(&s->study, err);
}

/* Cost of the plan that --diff names, as the best one's is counted; -1 where it cannot be rated. */
static double diff_cost(struct run *s)
{
	struct sc_study other;
	struct sc_shard_plan copy = {.world = 0};
	double cost = -1;

	sc_shard_plan_copy(&s->diff_plan, &copy);
	sc_study_init(&other, &s->objective, s->arena);
	sc_study_add_plan(&other, "diff", &copy);
	if (!other.plans.at[0].error)
		cost = sc_ranked_cost(&other, &other.plans.at[0]);
	sc_study_release(&other);
	return cost;
}

static int make_report(struct run *s, struct sc_err *err)
{
	const struct sc_shard_args *ask = s->ask;
	int rc = 0;

	s->report = (struct sc_shard_report){.study = &s->study,
					     .diff_cost = -1,
					     .warnings = &s->request->warnings,
					     .confidence_pct = (int)ask->confidence};
	const bool is_ended = sc_search_is_ended(ask->watch);

	if (s->study.predictor && !is_ended &&
	    !sc_iteration_rate(s->study.predictor, s->request, &s->study.plans.at[0].solution.plan,
			       s->study.prediction, NULL))
		s->report.warnings = &s->study.prediction->warnings;
	if (ask->pareto && !is_ended) {
		rc = sc_shard_pareto(&s->objective.problem, &s->study.opts.solve, s->arena,
				     &s->pareto, err);
		s->report.pareto = &s->pareto;
	}
	if (rc || !ask->diff)
		return rc;
	rc = load_plan(s, ask->diff, &s->diff_plan, err);
	if (rc == 0)
		rc = sc_shard_diff_compute(&s->diff_plan, &s->study.plans.at[0].solution.plan,
					   &s->objective.tables, &s->diff, err);
	if (rc)
		return rc;
	s->report.diff = &s->diff;
	s->report.diff_from = ask->diff;
	s->report.diff_cost = diff_cost(s);
	return 0;
}

struct sc_shard_report *sc_shard_run(const struct sc_shard_args *ask,
				     const struct sc_request *request, struct sc_arena *arena,
				     struct sc_err *err)
{
	struct run *s = sc_arena_calloc(arena, 1, sizeof(*s));
	int rc;

	s->ask = ask;
	s->request = request;
	s->arena = arena;
	rc = sc_shard_check_size(&request->config.model, err);
	if (rc == 0)
		rc = sc_objective_init(&s->objective, (enum sc_objective_kind)ask->objective,
				       ask->device_constants, request, ask->watch, arena, err);
	if (rc == 0)
		rc = read_constraints(s, err);
	if (rc == 0) {
		sc_study_init(&s->study, &s->objective, arena);
		set_opts(s);
		rc = add_plans(s, err);
	}
	if (rc == 0)
		rc = make_report(s, err);
	if (rc == 0)
		return &s->report;
	sc_shard_report_release(&s->report);
	return NULL;
}

void sc_shard_report_release(struct sc_shard_report *report)
{
	struct run *s = (struct run *)report;

	for (size_t i = 0; i < s->pareto.n; i++)
		sc_shard_plan_release(&s->pareto.at[i].plan);
	SC_VEC_RELEASE(&s->diff.moves);
	sc_shard_plan_release(&s->diff_plan);
	sc_shard_plan_release(&s->current);
	sc_study_release(&s->study);
	sc_shard_problem_release(&s->objective.problem);
	SC_VEC_RELEASE(&s->constraints);
}
