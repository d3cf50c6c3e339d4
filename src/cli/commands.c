/* Dispatch. Options before the command are those of the program as a whole. */
#include "cli/commands.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fields.h"
#include "base/json_out.h"
#include "base/ranks.h"
#include "base/units.h"
#include "cli/start.h"
#include "core/config/config.h"
#include "core/machine/device.h"
#include "core/machine/fabric.h"
#include "core/machine/software.h"
#include "core/profile/paths.h"

enum { MAX_PATH = 200, PATH_COLUMN = 34 };

static const struct {
	const char *title, *where;
	const struct sc_field *fields;
} files[] = {
	{"Requests",
	 "a config, --set, columns of a table; cluster and model also as files of their own",
	 sc_config_fields},
	{"Devices", "configs/devices", sc_device_fields},
	{"Fabrics", "configs/fabrics", sc_fabric_fields},
	{"Software", "configs/software", sc_software_fields},
};

struct keys_writer {
	const char *pattern;
	const char *title, *where; /* of the file, until its first key is written */
	bool markdown;
	size_t n;
	struct sc_strbuf *out;
};

static bool key_matches(const struct keys_writer *w, const char *path, const struct sc_field *field)
{
	const char *at = w->pattern;
	bool has;

	for (size_t n; *at; at += n) {
		at += strspn(at, " ");
		n = strcspn(at, " ");
		has = n == 0 || sc_text_has(path, at, n) || sc_text_has(field->help, at, n);
		for (const struct sc_name *name = field->names; name && name->name && !has; name++)
			has = sc_text_has(name->name, at, n);
		if (!has)
			return false;
	}
	return true;
}

static const char *needs_text(unsigned needs)
{
	static const struct sc_name names[] = {
		{"Transformers", SC_NEEDS_TRANSFORMER},
		{"DLRMs", SC_NEEDS_DLRM},
		{"mixtures of experts", SC_NEEDS_EXPERTS},
		{"LoRA", SC_NEEDS_LORA},
		{"tables of layers", SC_NEEDS_LAYERS},
		{"tori", SC_NEEDS_TORUS},
		{"K-FAC", SC_NEEDS_KFAC},
		{"Muon", SC_NEEDS_MUON},
		{0},
	};
	return sc_enum_name(names, (int)needs);
}

/* Names the value that holds where none is given, if the table knows it. */
static void append_absent(const struct sc_field *field, struct sc_strbuf *out)
{
	bool is_number = field->type == SC_F_INT || field->type == SC_F_DOUBLE;
	const char *name = field->names && field->absent >= 0
				   ? sc_enum_name(field->names, (int)field->absent)
				   : NULL;

	if (field->required)
		sc_strbuf_append(out, "must be given");
	else if (field->from && field->plain)
		sc_strbuf_printf(out, "%s, or what %s says", field->plain, field->from);
	else if (field->from && strncmp(field->from, "default: ", 9) == 0)
		sc_strbuf_append(out, field->from + 9);
	else if (field->from)
		sc_strbuf_append(out, field->from);
	else if (name)
		sc_strbuf_append(out, name);
	else if (is_number && field->absent > 0)
		sc_strbuf_printf(out, "%.15g", field->absent);
	else if (field->type == SC_F_BOOL)
		sc_strbuf_append(out, "false");
}

/* A cell of a Markdown table. */
static void append_cell(const char *text, const char *end, struct sc_strbuf *out)
{
	for (; *text; text++) {
		if (strchr("|*<", *text))
			sc_strbuf_append_char(out, '\\');
		sc_strbuf_append_char(out, *text);
	}
	sc_strbuf_append(out, end);
}

static void write_key(struct keys_writer *w, const char *path, const struct sc_field *field)
{
	struct sc_strbuf value = {0}, absent = {0}, *out = w->out;
	const char *whose = needs_text(field->needs), *help = field->help ? field->help : "";

	if (w->title && w->markdown)
		sc_strbuf_printf(out,
				 "\n## %s\n\n%s\n\n| key | value | default | meaning |\n"
				 "|---|---|---|---|\n",
				 w->title, w->where);
	else if (w->title)
		sc_strbuf_printf(out, "%s%s (%s)\n", w->n ? "\n" : "", w->title, w->where);
	w->title = NULL;
	w->n++;
	sc_field_value_text(field, &value);
	append_absent(field, &absent);
	if (w->markdown) {
		sc_strbuf_printf(out, "| `%s` | ", path);
		append_cell(sc_strbuf_get(&value), " | ", out);
		append_cell(sc_strbuf_get(&absent), " | ", out);
		append_cell(help, "", out);
		sc_strbuf_printf(out, "%s%s%s |\n", whose ? " (" : "", whose ? whose : "",
				 whose ? ")" : "");
	} else {
		sc_strbuf_printf(out, "  %-*s %s", PATH_COLUMN, path, sc_strbuf_get(&value));
		if (absent.n)
			sc_strbuf_printf(out, "; default: %s", sc_strbuf_get(&absent));
		sc_strbuf_printf(out, "\n  %*s %s%s%s%s\n", PATH_COLUMN, "", help,
				 whose ? " (" : "", whose ? whose : "", whose ? ")" : "");
	}
	sc_strbuf_release(&value);
	sc_strbuf_release(&absent);
}

static void write_table(struct keys_writer *w, const struct sc_field *table, const char *prefix)
{
	char path[MAX_PATH];

	for (const struct sc_field *field = table; field->key; field++) {
		snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", field->key);
		if ((field->type != SC_F_STRUCT || field->may_be_file) &&
		    key_matches(w, path, field))
			write_key(w, path, field);
		if (field->type == SC_F_STRUCTS)
			snprintf(path, sizeof(path), "%s%s%s[]", prefix, *prefix ? "." : "",
				 field->key);
		if (field->sub)
			write_table(w, field->sub, path);
	}
}

const struct sc_command *const sc_commands[] = {
	&sc_command_predict,   &sc_command_sweep,      &sc_command_search,
	&sc_command_scale,     &sc_command_compare,    &sc_command_validate,
	&sc_command_shard,     &sc_command_c3,         &sc_command_schedule,
	&sc_command_op,        &sc_command_collective, &sc_command_fit,
	&sc_command_calibrate, &sc_command_record,     &sc_command_import,
	&sc_command_export,    &sc_command_info,       &sc_command_replay,
	&sc_command_config,    &sc_command_devices,    &sc_command_models,
	&sc_command_clusters,  &sc_command_software,   &sc_command_examples,
	&sc_command_page,      &sc_command_help,       NULL,
};
enum { N_COMMANDS = sizeof(sc_commands) / sizeof(sc_commands[0]) - 1 };

static const struct sc_command *find_command(const char *name)
{
	for (size_t i = 0; sc_commands[i]; i++)
		if (strcmp(sc_commands[i]->name, name) == 0)
			return sc_commands[i];
	return NULL;
}

/* an error's code */
static int cli_unknown_command(const char *name, struct sc_err *err)
{
	const char *names[N_COMMANDS], *near;

	for (size_t i = 0; i < N_COMMANDS; i++)
		names[i] = sc_commands[i]->name;
	near = sc_nearest(name, names, N_COMMANDS);
	if (!near)
		return sc_err_set(err, SC_EUSAGE, "unknown command \"%.64s\"; see stepcast --help",
				  name);
	return sc_err_set(err, SC_EUSAGE, "unknown command \"%.64s\"; did you mean \"%s\"?", name,
			  near);
}

/* Prints the version; JSON says how the program was built, too. */
static int print_version(bool is_json)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_json json;
	int rc;

	if (!is_json) {
		fputs(SC_VERSION_LINE, stdout);
		return SC_EXIT_DONE;
	}
	sc_json_init(&json, "stepcast/version", 1);
	sc_json_text(&json, json.root, "stepcast", SC_VERSION);
	sc_json_text(&json, json.root, "compiler", __VERSION__);
	sc_json_text(&json, json.root, "build", SC_BUILD_TYPE);
	sc_json_bool(&json, json.root, "mpi", SC_BUILT_WITH_MPI);
	sc_json_bool(&json, json.root, "toml", SC_BUILT_WITH_TOML);
	rc = sc_json_write(&json, stdout, &err);
	return rc ? sc_cli_fail(&err) : SC_EXIT_DONE;
}

static int print_completion(const char *shell)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_strbuf text = {0};

	if (!shell || !sc_completion_script(shell, &text)) {
		sc_err_set(&err, SC_EUSAGE,
			   "--completion: expected bash, zsh or fish, got \"%.64s\"",
			   shell ? shell : "");
		return sc_cli_fail(&err);
	}
	fputs(sc_strbuf_get(&text), stdout);
	sc_strbuf_release(&text);
	return SC_EXIT_DONE;
}

static int run_command(struct sc_line *line)
{
	struct sc_err err = {.code = SC_OK};
	int exit_code;

	if (line->command->shares && sc_ranks_begin(&line->ranks, &err))
		return sc_cli_fail(&err);
	if (sc_ranks_helps(line->ranks) &&
	    (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
		sc_err_set(&err, SC_EIO, "cannot be silent");
	exit_code = sc_cli_start(line);
	if (line->ranks)
		line->ranks->end(line->ranks);
	return exit_code;
}

int sc_cli_run(int argc, char **argv)
{
	struct sc_line line = {.argc = argc - 2, .argv = argv + 2};
	const char *word = argc > 1 ? argv[1] : "";
	struct sc_err err = {.code = SC_OK};

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		line.command = &sc_command_help;
		line.argc = 0;
		return sc_cli_start(&line);
	}
	if (strcmp(word, "--version") == 0)
		return print_version(argc > 2 && strcmp(argv[2], "--json") == 0);
	if (strcmp(word, "--completion") == 0)
		return print_completion(argc > 2 ? argv[2] : NULL);
	if (strcmp(word, "--complete") == 0) {
		struct sc_strbuf text = {0};

		sc_complete(argc > 2 ? find_command(argv[2]) : NULL, line.argc, line.argv, &text);
		fputs(sc_strbuf_get(&text), stdout);
		sc_strbuf_release(&text);
		return SC_EXIT_DONE;
	}
	line.command = find_command(word);
	if (line.command)
		return run_command(&line);
	if (argc < 2)
		sc_err_set(&err, SC_EUSAGE, "a command is needed; see stepcast --help");
	else if (*word == '-')
		sc_err_set(&err, SC_EUSAGE,
			   "unknown option \"%.64s\" before a command; see stepcast --help", word);
	else
		cli_unknown_command(word, &err);
	return sc_cli_fail(&err);
}

/* stepcast help: the list of commands, a command's help or man page; the reference of keys. */

struct help_args {
	struct sc_common common;
	int man, markdown;
};

#define SC_ARGS struct help_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_FLAG(man, "man", "print the man page (roff) instead"),
	SC_OPT_FLAG(markdown, "markdown", "keys: print Markdown tables"),
	{0},
};

static void append_overview(struct sc_strbuf *out)
{
	sc_strbuf_append(
		out, "usage: stepcast COMMAND [ARGUMENT]...\n\n"
		     "Predicts the time of one training step on a GPU cluster, and says why, from a"
		     " YAML config.\n\nCommands:\n");
	for (size_t i = 0; sc_commands[i]; i++)
		sc_strbuf_printf(out, "  %-12s%s\n", sc_commands[i]->name, sc_commands[i]->summary);
	sc_strbuf_append(out,
			 "\n`stepcast COMMAND --help` says more. Also: stepcast --version, "
			 "stepcast --completion bash (or zsh, fish).\n"
			 "Exit code: 0 done, 1 bad data or system error, 2 wrong usage, 3 a check "
			 "did not hold.\n");
}

static void append_overview_page(struct sc_strbuf *out)
{
	sc_strbuf_append(out, ".TH STEPCAST 1 \"" SC_DATE "\" \"stepcast " SC_VERSION
			      "\"\n.SH NAME\nstepcast \\- predicts the time "
			      "of one training step on a GPU cluster\n.SH SYNOPSIS\n.B stepcast\n"
			      "COMMAND [ARGUMENT]...\n.SH COMMANDS\n");
	for (size_t i = 0; sc_commands[i]; i++)
		sc_strbuf_printf(out, ".TP\n.BR stepcast\\-%s (1)\n%s\n", sc_commands[i]->name,
				 sc_commands[i]->summary);
	sc_strbuf_append(
		out,
		".SH OPTIONS\n.TP\n.B \\-\\-help\nlist the commands\n"
		".TP\n.B \\-\\-version\nshow the version\n"
		".TP\n.B \\-\\-completion bash\nprint a completion script; also for zsh and fish\n"
		".SH ENVIRONMENT\n.TP\n.B STEPCAST_CONFIGS\na folder of configs (devices, "
		"clusters, models, software) to look in first\n"
		".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nbad data, or a system "
		"error\n.TP\n.B 2\nwrong usage\n.TP\n.B 3\na check that was asked for did "
		"not hold\n");
}

/* Appends the keys whose path or help has every word after the first, a case apart, as text for a
 * terminal or as Markdown. A list's elements are keys too: "model.tables[].rows". */
static int append_keys(const struct help_args *args, struct sc_strbuf *out, struct sc_err *err)
{
	const struct sc_arg_list *words = &args->common.words;
	struct sc_strbuf pattern = {0};
	struct keys_writer w = {.markdown = args->markdown, .out = out};

	for (size_t i = 1; i < words->n; i++)
		sc_strbuf_printf(&pattern, "%s%s", i > 1 ? " " : "", words->at[i]);
	if (args->markdown)
		sc_strbuf_append(
			out,
			"# Keys\n\nWritten by `stepcast help keys --markdown`. Every key can be set "
			"on the command line: `--set parallel.tp=4`.\n");
	w.pattern = sc_strbuf_get(&pattern);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		w.title = files[i].title;
		w.where = files[i].where;
		write_table(&w, files[i].fields, "");
	}
	sc_strbuf_release(&pattern);
	return w.n > 0 ? 0
		       : sc_err_set(err, SC_EUSAGE,
				    "no key has \"%.64s\"; `stepcast help keys` lists all",
				    words->n > 1 ? words->at[1] : "");
}

/* ---- help coverage: how much of what was measured is like a question, and what of it is
 * extrapolated ---- */

/* Columns in which rows agree with the question, the most first. */
static const struct {
	const char *name;
	unsigned columns;
} ROWS[] = {
#define LIKE(column) (1u << SC_LIKE_##column)
	{"this model, GPU, software, nodes, bits",
	 LIKE(MODEL) | LIKE(GPU) | LIKE(SOFTWARE) | LIKE(NODES) | LIKE(BITS)},
	{"this model, GPU and software", LIKE(MODEL) | LIKE(GPU) | LIKE(SOFTWARE)},
	{"this GPU and software", LIKE(GPU) | LIKE(SOFTWARE)},
	{"this model and GPU", LIKE(MODEL) | LIKE(GPU)},
	{"this model and software", LIKE(MODEL) | LIKE(SOFTWARE)},
	{"this model, nodes, bits", LIKE(MODEL) | LIKE(NODES) | LIKE(BITS)},
	{"all", 0},
};

static void append_rows(const struct sc_band *band, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "%-42s %6s %8s %9s %7s\n", "measured rows of", "rows", "sources",
			 "median %", "p90 %");
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct sc_like_rows rows;

		sc_band_count(band, ROWS[i].columns, &rows);
		sc_strbuf_printf(out, "  %-40s %6zu", ROWS[i].name, rows.n);
		if (rows.n)
			sc_strbuf_printf(out, " %8zu %9.1f %7.1f", rows.n_suites,
					 SC_PCT * expm1(rows.median_ln),
					 SC_PCT * expm1(rows.p90_ln));
		sc_strbuf_append_char(out, '\n');
	}
}

static bool has_rows(const struct sc_band *band, unsigned columns)
{
	struct sc_like_rows rows;

	sc_band_count(band, columns, &rows);
	return rows.n > 0;
}

/* Appends, in words, the parts of a prediction that no measurement stands behind. */
static void append_gaps(const struct sc_request *request, struct sc_strbuf *out)
{
	const bool is_dlrm = request->config.model.family == SC_DLRM;
	const char *const BLOCKS[] = {
		sc_device_math_block(&request->device,
				     sc_precision_dtype(request->config.training.precision)),
		is_dlrm ? "embedding" : "attention", "rowwise"};
	const struct sc_band *band = request->band;
	const char *const *like = band->like.at;
	const size_t before = out->n;

	for (size_t i = 0; i < sizeof(BLOCKS) / sizeof(BLOCKS[0]); i++)
		if (!sc_device_is_fitted(&request->device, BLOCKS[i]))
			sc_strbuf_printf(out, "  %s kernels of %s: from a trend over other GPUs\n",
					 BLOCKS[i], request->device.id);
	if (!sc_band_knows_model(band))
		sc_strbuf_printf(out, "  iterations of %s models: none was measured\n",
				 like[SC_LIKE_MODEL]);
	if (!sc_band_knows_network(band))
		sc_strbuf_printf(out, "  iterations over %s: none was measured\n",
				 like[SC_LIKE_NETWORK]);
	if (!has_rows(band, LIKE(GPU)))
		sc_strbuf_printf(out, "  iterations on %s: none was measured\n", like[SC_LIKE_GPU]);
	if (!has_rows(band, LIKE(SOFTWARE)))
		sc_strbuf_printf(out, "  iterations of %s: none was measured\n",
				 like[SC_LIKE_SOFTWARE]);
	else if (!sc_band_is_seen(band) && has_rows(band, LIKE(GPU)))
		sc_strbuf_printf(out, "  %s on %s: each was measured, not together\n",
				 like[SC_LIKE_SOFTWARE], like[SC_LIKE_GPU]);
	if (!has_rows(band, LIKE(GPU) | LIKE(BITS)))
		sc_strbuf_printf(out, "  products of %s bits on %s: in no measured iteration\n",
				 like[SC_LIKE_BITS], like[SC_LIKE_GPU]);
	if (out->n == before)
		sc_strbuf_append(out, "  nothing: its kernels, its software and its number format "
				      "were measured on this GPU\n");
}

/* A config, or a model, a GPU and a software in any order: a word is what it names, an unknown one
 * the first that no other is. What is left out is the config's, or usual. */
static int read_question(const struct sc_arg_list *words, struct sc_cli_call *call,
			 struct sc_config *config, struct sc_err *err)
{
	static const char *const FOLDERS[] = {"models", "devices", "software"};
	static const char *const KEYS[] = {"model", "cluster.gpu", "training.software"};
	enum { MODEL, GPU, SOFTWARE, N };
	const char *at[N] = {NULL}, *first = words->at[0], *found;
	const bool has_config = sc_ends_with(first, ".yaml") && strncmp(first, "models/", 7) != 0;
	int rc = 0;

	sc_config_init(config);
	config->gpus = 1;
	config->training.global_batch = 1;
	if (has_config)
		rc = sc_cli_config(at[MODEL] = first, &(struct sc_arg_list){.n = 0}, call->arena,
				   config, err);
	for (size_t i = has_config; i < words->n && rc == 0; i++) {
		const char *word = words->at[i] + (strncmp(words->at[i], "models/", 7) ? 0 : 7);
		struct sc_err unknown = {.code = SC_OK};
		int k = 0;

		word = sc_arena_strndup(call->arena, word,
					strlen(word) - (sc_ends_with(word, ".yaml") ? 5 : 0));
		for (found = NULL; k < N && !found; k++) {
			const char *file =
				sc_arena_printf(call->arena, "%s/%s.yaml", FOLDERS[k], word);

			sc_config_path((struct sc_config_ref){.at = file}, call->arena, &found,
				       &unknown);
		}
		for (k = found ? k - 1 : MODEL; !found && k < SOFTWARE && at[k];)
			k++;
		if (at[k])
			return sc_err_set(err, SC_EUSAGE,
					  "help coverage: \"%.64s\" and \"%.64s\" are each for %s; "
					  "expected CONFIG|MODEL [GPU] [SOFTWARE]",
					  at[k], word, KEYS[k]);
		at[k] = word;
	}
	if (rc == 0 && !has_config && (!at[MODEL] || !at[GPU]))
		return sc_err_set(
			err, SC_EUSAGE,
			"help coverage needs a CONFIG, or a MODEL and a GPU, as llama3-8b "
			"h100-sxm-80gb megatron-core");
	if (rc == 0 && !has_config)
		at[MODEL] = sc_arena_printf(call->arena, "models/%s.yaml", at[MODEL]);
	for (int k = has_config; k < N && rc == 0; k++)
		if (at[k])
			rc = sc_config_set(config,
					   &(struct sc_setting){KEYS[k], at[k], "help coverage"},
					   call->arena, err);
	return rc;
}

static int append_coverage(const struct sc_arg_list *words, struct sc_cli_call *call,
			   struct sc_strbuf *out, struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(call->arena, 1, sizeof(*request));
	const char *const *like;
	struct sc_config config;
	int rc;

	if (words->n < 1 || words->n > 3)
		return sc_err_set(err, SC_EUSAGE,
				  "help coverage: expected CONFIG|MODEL [GPU] [SOFTWARE]");
	rc = read_question(words, call, &config, err);
	if (rc == 0)
		rc = sc_config_resolve(&config, call->catalog, config.file, request, err);
	if (rc)
		return rc;
	like = request->band->like.at;
	sc_strbuf_printf(out, "%s model on %s, %s, %s node%s, products of %s bits\n\n",
			 like[SC_LIKE_MODEL], like[SC_LIKE_GPU], like[SC_LIKE_SOFTWARE],
			 like[SC_LIKE_NODES], strcmp(like[SC_LIKE_NODES], "one") == 0 ? "" : "s",
			 like[SC_LIKE_BITS]);
	append_rows(request->band, out);
	sc_strbuf_printf(out, "an %d %% band is %.1f %% to either side\n\nextrapolated\n",
			 SC_CONFIDENCE,
			 SC_PCT * (sc_band_factor(request->band, SC_CONFIDENCE) - 1));
	append_gaps(request, out);
	return 0;
}

static int help(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct help_args *args = into;
	const struct sc_arg_list *words = &args->common.words;
	const struct sc_command *about = words->n ? find_command(words->at[0]) : NULL;
	struct sc_strbuf out = {0};
	int rc = 0;

	if (words->n && strcmp(words->at[0], "keys") == 0)
		rc = append_keys(args, &out, err);
	else if (words->n && strcmp(words->at[0], "coverage") == 0)
		rc = append_coverage(&(struct sc_arg_list){words->at + 1, words->n - 1}, call, &out,
				     err);
	else if (words->n && !about)
		rc = cli_unknown_command(words->at[0], err);
	else if (about)
		sc_options_help(about, args->man, &out);
	else
		(args->man ? append_overview_page : append_overview)(&out);
	if (rc == 0)
		rc = sc_cli_write_text(args->common.output, &out, err);
	sc_strbuf_release(&out);
	return rc;
}

const struct sc_command sc_command_help = {
	.name = "help",
	.summary = "show what a command does",
	.synopsis =
		"[COMMAND] [--man] | keys [WORD]... [--markdown] | coverage CONFIG|MODEL [GPU] [SOFTWARE]",
	.details =
		"Shows what COMMAND does, or lists all commands. --man prints the man page of COMMAND, or of stepcast.\n\n"
		"keys lists every key of configs, devices, fabrics and software with its values, default and meaning: all, "
		"or those whose name, values or meaning have each WORD.\n\n"
		"coverage says how many measured iterations are like a CONFIG's, or those of a MODEL on a GPU with a "
		"SOFTWARE (in any order): how far predictions were from them, how wide the band therefore is, and what no "
		"measured row shows.\n\n"
		"  stepcast help coverage configs/examples/gpt-22b-selene.yaml\n"
		"  stepcast help coverage llama3-70b gb200 megatron-core",
	.words = "command",
	.options = OPTIONS,
	.args_bytes = sizeof(struct help_args),
	.run = help,
};
