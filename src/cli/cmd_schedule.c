/* stepcast schedule: pipeline schedules by themselves: drawn, compared, checked, written. */
#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "core/config/config_schedule.h"
#include "predict/schedule/schedule_file.h"
#include "report/parts.h"
#include "report/schedule_report.h"
#include "study/evaluate/evaluate.h"
#include "study/schedule/schedule_play.h"

enum { SCHEDULE_VERSION = 1, MAX_PP = 1024, MAX_MICRO_BATCHES = 1 << 16, MAX_CHUNKS = 64 };

struct schedule_args {
	struct sc_common common;
	int64_t pp, micro_batches, virtual_stages, replicas, waves;
	const char *times;
	struct sc_arg_list stage_times, sets;
	const char *report;
	int optimize, json;
};

#define SC_ARGS struct schedule_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_INT(pp, "pp", "P", 1, MAX_PP, "pipeline stages (default: 4)"),
	SC_OPT_INT(micro_batches, "micro-batches", "M", 1, MAX_MICRO_BATCHES,
		   "micro-batches of a step (default: twice the stages)"),
	SC_OPT_INT(virtual_stages, "virtual-stages", "V", 1, MAX_CHUNKS,
		   "interleaved, breadth-first: chunks a stage (default: 2)"),
	SC_OPT_INT(replicas, "replicas", "N", 2, MAX_CHUNKS,
		   "chimera: pipelines at once (default: 2)"),
	SC_OPT_INT(waves, "waves", "N", 1, MAX_CHUNKS / 2, "hanayo: waves (default: 1)"),
	SC_OPT_TEXT(
		times, "times", "f=T,b=T,w=T,send=T",
		"times of a stage: forward, backward of inputs, backward of weights, and sending (default: 1, 1, 1, 0); "
		"kept=K: the share of activations that backward of weights still needs (1)"),
	SC_OPT_LIST(
		stage_times, "stage-times", "f=T,b=T,w=T",
		"where stages differ: the times of the first stage that differ from --times; given again, those of the "
		"second, and so on"),
	SC_OPT_FLAG(
		optimize, "optimize",
		"zb-1p, zb-2p: look for a better order within the same memory, and say how far it may be from the best "
		"possible"),
	SC_OPT_SET(sets),
	SC_OPT_REPORT(report),
	SC_OPT_JSON(json),
	{0},
};

struct drawing {
	const char *name;            /* of a schedule or a file; NULL: what the config says */
	struct sc_pass_times *times; /* by stage */
	struct sc_optimized optimized;
	struct sc_schedule_file file;
	struct sc_schedule_play play;
	double fullness; /* of a GPU's memory; 0: not known */
};
struct drawings {
	const struct schedule_args *args;
	const char *config;     /* its file, or NULL */
	struct sc_config *base; /* what it says, if it is not NULL */
	struct drawing *at;
	size_t n;
};

static bool is_file(const char *word)
{
	return sc_ends_with(word, ".csv") || sc_ends_with(word, ".json");
}

/* "f=1,b=1": what is left out stays. */
static int parse_times(const char *text, struct sc_arena *arena, struct sc_pass_times *out,
		       struct sc_err *err)
{
	const struct {
		const char *name;
		double *value;
	} keys[] = {{"f", &out->forward},
		    {"b", &out->input},
		    {"w", &out->weight},
		    {"send", &out->send},
		    {"kept", &out->kept}};
	const size_t n_keys = sizeof(keys) / sizeof(keys[0]);
	char *word = text ? sc_arena_strdup(arena, text) : NULL, *save = NULL;

	for (word = word ? strtok_r(word, ",", &save) : NULL; word;
	     word = strtok_r(NULL, ",", &save)) {
		char *value = strchr(word, '=');
		size_t i = 0;

		if (value)
			*value++ = '\0';
		while (i < n_keys && strcmp(word, keys[i].name) != 0)
			i++;
		if (i == n_keys || !value || !sc_parse_double(value, keys[i].value) ||
		    *keys[i].value < 0 || *keys[i].value > 1e9 || out->kept > 1)
			return sc_err_set(
				err, SC_EUSAGE,
				"--times: expected f, b, w, send or kept, and a number from 0 to "
				"1e9 (kept: to 1), as f=1,b=1,w=1,send=0; got \"%.64s\"",
				word);
	}
	return 0;
}

static const char NAMES[] =
	"1f1b gpipe interleaved breadth-first zb-h1 zb-h2 zb-1p zb-2p zb-v v-half "
	"v-min chimera hanayo dualpipe dualpipev gems";

static int find_kind(const char *name, enum sc_schedule *out, struct sc_err *err)
{
	const char *names[SC_N_SCHEDULES], *near;
	size_t n = 0;

	for (; sc_schedule_names[n].value != SC_SCHED_AUTO; n++) {
		names[n] = sc_schedule_names[n].name;
		if (strcmp(names[n], name) == 0) {
			*out = (enum sc_schedule)sc_schedule_names[n].value;
			return 0;
		}
	}
	if (strcmp(name, "pipedream-2bw") == 0)
		return sc_err_set(err, SC_EUSAGE,
				  "pipedream-2bw never drains: it is drawn only as a CONFIG.yaml "
				  "runs it");
	near = sc_nearest(name, names, n);
	return sc_err_set(err, SC_EUSAGE, "unknown schedule \"%.64s\"; %s%s%s", name,
			  near ? "did you mean \"" : "give a .csv file, or one of ",
			  near ? near : NAMES, near ? "\"?" : "");
}

/* Reads the times of `pp` stages, from the first on. */
static int find_times(const struct schedule_args *args, uint32_t pp, struct sc_arena *arena,
		      struct drawing *out, struct sc_err *err)
{
	const struct sc_arg_list *list = &args->stage_times;
	struct sc_pass_times all = {.forward = 1, .input = 1, .weight = 1, .kept = 1};
	int rc = parse_times(args->times, arena, &all, err);

	if (rc == 0 && list->n > pp)
		return sc_err_set(err, SC_EUSAGE,
				  "--stage-times is given %zu times; %s has %u stages", list->n,
				  out->name, pp);
	out->times = sc_arena_calloc(arena, pp, sizeof(*out->times));
	for (uint32_t s = 0; s < pp && rc == 0; s++) {
		out->times[s] = all;
		if (s < list->n)
			rc = parse_times(list->at[s], arena, &out->times[s], err);
		if (rc == 0 &&
		    out->times[s].forward + out->times[s].input + out->times[s].weight <= 0)
			rc = sc_err_set(err, SC_EUSAGE, "--times: all passes take no time");
	}
	return rc;
}

static int optimize_passes(const struct sc_schedule_shape *shape, struct sc_arena *arena,
			   struct drawing *out, struct sc_err *err)
{
	if (shape->kind != SC_SCHED_ZB_1P && shape->kind != SC_SCHED_ZB_2P)
		return sc_err_set(err, SC_EUSAGE, "--optimize is for zb-1p and zb-2p, not %s",
				  out->name);
	sc_schedule_optimize(shape, arena, &out->file.passes, &out->optimized);
	return 0;
}

static int build_drawing(const struct schedule_args *args, struct sc_arena *arena,
			 struct drawing *out, struct sc_err *err)
{
	struct sc_parallel par = {.pp = args->pp > 0 ? args->pp : 4,
				  .chimera_replicas = args->replicas,
				  .waves = args->waves};
	int64_t m = args->micro_batches > 0 ? args->micro_batches : 2 * par.pp;
	struct sc_schedule_shape shape;
	char why[200];
	int rc = find_kind(out->name, &par.schedule, err);

	if (rc)
		return rc;
	par.virtual_stages = par.schedule == SC_SCHED_HANAYO
				     ? 2 * (args->waves > 0 ? args->waves : 1)
				     : sc_schedule_chunks(par.schedule);
	if (par.virtual_stages == 0)
		par.virtual_stages = args->virtual_stages > 0 ? args->virtual_stages : 2;
	if (sc_schedule_refuses(&par, m, why, sizeof(why)))
		return sc_err_set(err, SC_EUSAGE, "%s", why);
	rc = find_times(args, (uint32_t)par.pp, arena, out, err);
	if (rc)
		return rc;
	shape = sc_schedule_shape_of(&par, (uint32_t)m);
	shape.times = out->times[par.pp / 2];
	shape.stage_times = out->times;
	shape.times.forward /= (double)par.virtual_stages;
	shape.times.input /= (double)par.virtual_stages;
	shape.times.weight /= (double)par.virtual_stages;
	sc_stage_map_init(&shape, arena, &out->file.map);
	sc_passes_build(&shape, &out->file.map, arena, &out->file.passes);
	return args->optimize ? optimize_passes(&shape, arena, out, err) : 0;
}

/* An optimized order is worse than the best by at most so much. */
static double gap_pct(const struct sc_optimized *o)
{
	return fmax(0, 100 * (o->longest / o->bound - 1));
}

static void add_fits(struct sc_json *json, json_t *parent, const struct drawing *d)
{
	if (d->fullness > 0)
		sc_json_bool(json, parent, "fits", d->fullness <= 1);
}

static void put_slots(const void *ctx, size_t i, struct sc_json_stream *out)
{
	const struct drawings *all = ctx;

	sc_schedule_put_slots(&all->at[i].play, out);
}

static void put_schedule_json(const void *ctx, struct sc_json *json)
{
	const struct drawings *all = ctx;
	const struct drawing *least = &all->at[0];
	bool all_fit = true;

	sc_json_init(json, "stepcast.schedule", SCHEDULE_VERSION);
	json->put_rows = put_slots;
	json->rows = all;
	if (all->base)
		sc_json_base(json, all->base);
	for (size_t i = 0; i < all->n; i++) {
		const struct drawing *d = &all->at[i];
		const bool fits = d->fullness <= 1;

		all_fit &= fits;
		if (fits == (least->fullness <= 1) ? d->play.makespan < least->play.makespan : fits)
			least = d;
	}
	sc_json_verdict(json, least->fullness > 1 ? SC_STANDS_BADLY : SC_STANDS,
			"%s%s%s: the bubble is %.2f %% of the longest stage's time%s.",
			least->fullness > 1 ? "Does not fit the memory: " : "",
			all->n == 1                      ? ""
			: all_fit || least->fullness > 1 ? "The shortest is "
							 : "The shortest that fits is ",
			least->name, least->play.bubble_pct,
			least->file.passes.left_out ? ", of what is shown" : "");
	add_fits(json, json->root, &all->at[0]);
	sc_json_rows(json, json->root, "slots", 0);
	sc_schedule_to_json(json, json->root, all->at[0].name, &all->at[0].play);
	if (all->args->optimize) {
		sc_json_real(json, json->root, "lower_bound", all->at[0].optimized.bound);
		sc_json_real(json, json->root, "gap_pct", gap_pct(&all->at[0].optimized));
	}
	if (all->n > 1) {
		json_t *others = sc_json_array(json, json->root, "others");

		for (size_t i = 1; i < all->n; i++) {
			json_t *other = sc_json_object(json, others, NULL);

			add_fits(json, other, &all->at[i]);
			sc_json_rows(json, other, "slots", i);
			sc_schedule_to_json(json, other, all->at[i].name, &all->at[i].play);
		}
	}
}

static int put_file(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct drawings *all = ctx;

	(void)err;
	sc_schedule_file_write(
		&all->at[0].file.passes,
		sc_ends_with(all->args->common.output, ".json") ? all->at[0].name : NULL, out);
	return 0;
}

static void draw_text(const void *ctx, struct sc_strbuf *out)
{
	const struct drawings *all = ctx;

	for (const struct drawing *d = all->at; d < all->at + all->n; d++) {
		sc_schedule_to_text(d->name, &d->play, out);
		if (all->args->optimize)
			sc_strbuf_printf(
				out,
				"longest stage %g, none takes less than %g: gap %.2f %%, %u orders tried\n",
				d->optimized.longest, d->optimized.bound, gap_pct(&d->optimized),
				d->optimized.n_tried);
	}
}

static void draw_svg(const void *ctx, struct sc_strbuf *out)
{
	const struct drawings *all = ctx;

	sc_schedule_to_svg(all->at[0].name, &all->at[0].play, out);
}

static const struct sc_forms forms = {.json = put_schedule_json,
				      .text = draw_text,
				      .csv = put_file,
				      .svg = draw_svg,
				      .own_json = true};

/* The ending of the file's name says which form is written. */
static int write_drawings(const struct drawings *all, const struct sc_cli_call *call,
			  struct sc_err *err)
{
	const char *output = all->args->common.output;
	const struct drawing *d = &all->at[0];

	if (all->args->json)
		return sc_cli_give(call, &forms, all, err);
	if (all->n > 1 && (is_file(output) || sc_ends_with(output, ".svg")))
		return sc_err_set(err, SC_EUSAGE,
				  "%s holds one schedule, and %zu were given; an .html file takes "
				  "them all",
				  output, all->n);
	if (is_file(output) && strcmp(d->name, "pipedream-2bw") == 0)
		return sc_err_set(err, SC_EUSAGE,
				  "%s: %s never drains, and a file of passes has all of a step; an "
				  ".html or .svg file shows it",
				  output, d->name);
	if (is_file(output) && d->file.passes.map->replicas > 1)
		return sc_err_set(
			err, SC_EUSAGE,
			"%s: %s runs each stage on %u ranks, and a file of passes says one "
			"for each: it could not be read back; an .html or .svg file shows it",
			output, d->name, d->file.passes.map->replicas);
	return sc_cli_give(call, &forms, all, err);
}

/* ---- with the passes of a config ---- */

/* The passes of each stage take so long, over all its chunks; and the least time between a forward
 * pass and the next stage's. */
static void read_times(struct drawing *d, struct sc_arena *arena)
{
	const struct sc_passes *passes = d->play.passes;
	double send = -1;

	d->times = sc_arena_calloc(arena, passes->map->pp, sizeof(*d->times));
	for (uint32_t s = 0; s < passes->map->pp; s++) {
		const struct sc_slot *slots = sc_passes_of(passes, s);
		const double *start = d->play.start + (size_t)s * passes->stride;
		const double *end = d->play.end + (size_t)s * passes->stride;
		double sum[SC_N_PASS_KINDS] = {0};

		for (uint32_t i = 0; i < passes->n[s]; i++) {
			double gap = start[i] - d->play.end[i];

			sum[slots[i].kind] += (end[i] - start[i]) / passes->micro_batches;
			if (s == 1 && slots[i].kind == SC_PASS_FORWARD &&
			    slots[i].micro_batch == i && (send < 0 || gap < send))
				send = gap;
		}
		d->times[s] = (struct sc_pass_times){.forward = sum[SC_PASS_FORWARD],
						     .input = sum[SC_PASS_BACKWARD_INPUT],
						     .weight = sum[SC_PASS_BACKWARD_WEIGHT],
						     .kept = d->play.held[s].kept};
	}
	for (uint32_t s = 0; s < passes->map->pp; s++)
		d->times[s].send = send > 0 ? send : 0;
}

/* Another order of the same passes, by their times alone. */
static int optimize_config(struct drawing *d, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_schedule_shape shape = {.pp = d->play.passes->map->pp,
					  .virtual_stages = 1,
					  .micro_batches = d->play.passes->micro_batches};
	struct sc_stage_held *held = d->play.held;
	int rc = find_kind(d->name, &shape.kind, err);

	if (rc)
		return rc;
	read_times(d, arena);
	shape.times = d->times[shape.pp / 2];
	shape.stage_times = d->times;
	sc_stage_map_init(&shape, arena, &d->file.map);
	sc_passes_build(&shape, &d->file.map, arena, &d->file.passes);
	rc = optimize_passes(&shape, arena, d, err);
	if (rc)
		return rc;
	sc_schedule_play(&d->file.passes, d->times, arena, &d->play);
	d->play.time_unit = " ms";
	d->play.held_unit = "GiB";
	d->play.held = held;
	sc_schedule_measure(&d->play, arena);
	return 0;
}

static int predict_drawing(const struct drawings *all, struct sc_evaluator *by,
			   struct sc_arena *arena, struct drawing *d, struct sc_err *err)
{
	struct sc_config config = *all->base; /* with the drawing's schedule */
	int rc = !d->name ? 0
			  : sc_config_set(&config,
					  &(struct sc_setting){"parallel.schedule", d->name,
							       "the command line"},
					  arena, err);

	if (d->name && !is_file(d->name) && sc_schedule_chunks(config.parallel.schedule) > 0)
		config.parallel.virtual_stages = SC_NOT_GIVEN;
	if (rc == 0)
		rc = sc_evaluate(by, &(struct sc_candidate){.base = &config, .file = all->config},
				 err);
	if (rc)
		return rc;
	sc_cli_warn_all(&all->args->common, &by->prediction.warnings);
	d->fullness = sc_memory_fullness(&by->prediction.memory);
	if (!sc_predictor_play(by->predictor, arena, &d->play))
		return sc_err_set(err, SC_EUSAGE, "%s has no pipeline to draw; see parallel.pp",
				  all->config);
	if (!d->name || !is_file(d->name)) /* what auto has chosen */
		d->name = by->request.config.parallel.schedule == SC_SCHED_FILE
				  ? by->request.config.parallel.schedule_file
				  : sc_enum_name(sc_schedule_names,
						 (int)by->request.config.parallel.schedule);
	d->file.passes = *d->play.passes;
	return all->args->optimize ? optimize_config(d, arena, err) : 0;
}

static int take_words(struct drawings *all, struct sc_arena *arena, struct sc_err *err)
{
	const struct schedule_args *args = all->args;
	const struct sc_arg_list *words = &args->common.words;

	all->at = sc_arena_calloc(arena, words->n + 1, sizeof(*all->at));
	for (size_t i = 0; i < words->n; i++)
		if (!(sc_ends_with(words->at[i], ".yaml") || sc_ends_with(words->at[i], ".yml")))
			all->at[all->n++].name = words->at[i];
		else if (all->config)
			return sc_err_set(err, SC_EUSAGE,
					  "schedule takes one CONFIG, not %s and %s", all->config,
					  words->at[i]);
		else
			all->config = words->at[i];
	if (all->config && (args->pp || args->micro_batches || args->virtual_stages ||
			    args->replicas || args->waves || args->times || args->stage_times.n))
		return sc_err_set(
			err, SC_EUSAGE,
			"%s has the stages, micro-batches and times; change them by --set",
			all->config);
	if (!all->config && args->sets.n)
		return sc_err_set(err, SC_EUSAGE, "--set is for a CONFIG, and there is none");
	if (all->n == 0 && !all->config)
		return sc_err_set(err, SC_EUSAGE,
				  "schedule needs a NAME, as zb-v, a FILE.csv or FILE.json, or a "
				  "CONFIG.yaml; --help lists them");
	all->n = all->n ? all->n : 1;
	return 0;
}

static int schedule(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct schedule_args *args = into;
	struct sc_arena *arena = call->arena;
	struct drawings all = {.args = args};
	struct sc_evaluator *by = NULL;
	int rc = take_words(&all, arena, err);

	if (rc == 0 && all.config) { /* its passes as the engine runs them, every micro-batch */
		all.base = sc_arena_calloc(arena, 1, sizeof(*all.base));
		rc = sc_cli_config(all.config, &args->sets, arena, all.base, err);
		by = sc_evaluator_create(call->catalog);
		by->opts.no_jump = true;
	}
	for (size_t i = 0; i < all.n && rc == 0; i++) {
		struct drawing *d = &all.at[i];

		if (by) {
			rc = predict_drawing(&all, by, arena, d, err);
			continue;
		}
		rc = is_file(d->name) ? sc_schedule_file_load(d->name, arena, &d->file, err)
				      : build_drawing(args, arena, d, err);
		if (rc == 0 && is_file(d->name))
			rc = find_times(args, d->file.map.pp, arena, d, err);
		if (rc == 0)
			sc_schedule_play(&d->file.passes, d->times, arena, &d->play);
	}
	sc_evaluator_destroy(by);
	return rc ? rc : write_drawings(&all, call, err);
}

const struct sc_command sc_command_schedule = {
	.name = "schedule",
	.summary = "draw, compare, check or write pipeline schedules",
	.synopsis =
		"NAME|FILE.csv|FILE.json... [CONFIG.yaml | --pp P --micro-batches M --times f=1,b=1,w=1] "
		"[--optimize] [-o FILE.csv|FILE.json|FILE.svg|FILE.html] [--report FILE.html] [--json]",
	.details =
		"Shows when each stage runs which pass (F forward, B backward, I backward of inputs, W of weights), the "
		"share of the longest stage's time in which stages have no work, and the micro-batches whose activations "
		"each stage holds, at most and over time. With a CONFIG the passes take the times predicted for it, in ms, "
		"and memory is in GiB per GPU; without a NAME the schedule is the CONFIG's own.\n\n"
		"NAME is a value of parallel.schedule. FILE.csv has a line per rank and cells as PyTorch's pipelining "
		"package writes them: stage, kind, micro-batch (0F0, 1B2, 1I2, 1W2, (0F1;3B0)OVERLAP_F_B); where a stage "
		"and micro-batch have a W, an older file's B is the backward of inputs; SEND, RECV, UNSHARD, RESHARD and "
		"REDUCE_GRAD are read past. FILE.json has the same cells: {\"schema\": \"stepcast/schedule/1\", \"ranks\": "
		"[[\"0F0\", \"0B0\"]]}, with comments. chimera and dualpipe run a stage on several ranks, which such a "
		"file cannot say. A file that cannot run is an error that says which rank waits for what.\n\n"
		"  stepcast schedule 1f1b zb-h1 zb-v --pp 4 --micro-batches 8\n"
		"  stepcast schedule zb-v --pp 8 --micro-batches 24 -o zbv.csv\n"
		"  stepcast schedule 1f1b zb-v run.yaml -o run.html\n"
		"  stepcast schedule zb-2p --pp 8 --micro-batches 24 --times f=2,b=2,w=1 --stage-times f=1 --optimize",
	.words = NAMES,
	.options = OPTIONS,
	.args_bytes = sizeof(struct schedule_args),
	.run = schedule,
};
