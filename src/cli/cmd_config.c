/* stepcast config: checks and shows a config, makes one of other programs' files, or theirs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "core/foreign/foreign.h"
#include "report/config_export.h"
#include "report/config_show.h"
#include "study/evaluate/evaluate.h"

struct config_args {
	struct sc_common common;
	struct sc_arg_list sets;
	const char *shim, *to;
	int lenient;
};

#define SC_ARGS struct config_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_SET(sets),
	SC_OPT_FLAG(lenient, "lenient",
		    "import: ignore the keys that are not understood, and list them"),
	SC_OPT_TEXT(
		shim, "shim", "DIR",
		"import: write programs there that stand for torchrun, python, srun, sbatch and the like, print their arguments and end"),
	SC_OPT_TEXT(to, "to", "PROGRAM",
		    "export: megatron (arguments), torchtitan (TOML) or deepspeed (JSON)"),
	{0},
};

enum verb { CHECK, SHOW, IMPORT, EXPORT, N_VERBS };
static const char *const VERBS[N_VERBS] = {"check", "show", "import", "export"};

static int verb_of(const struct sc_arg_list *words, enum verb *out, struct sc_err *err)
{
	int verb = 0;

	if (words->n < 2)
		return sc_err_set(
			err, SC_EUSAGE,
			"config needs check, show, import or export, and a FILE; or stack");
	while (verb < N_VERBS && strcmp(words->at[0], VERBS[verb]) != 0)
		verb++;
	if (verb == N_VERBS)
		return sc_err_set(
			err, SC_EUSAGE,
			"config: expected check, show, import, export or stack, got \"%.64s\"",
			words->at[0]);
	if (verb != IMPORT && words->n > 2)
		return sc_err_set(err, SC_EUSAGE,
				  "config %s takes only one FILE; what is \"%.64s\"?", VERBS[verb],
				  words->at[2]);
	*out = (enum verb)verb;
	return 0;
}

static int import_files(const struct config_args *args, struct sc_foreign_lines *lines,
			struct sc_config *config, struct sc_err *err)
{
	const struct sc_arg_list *words = &args->common.words;
	size_t n_ignored = 0, n_unknown = 0;
	int64_t gpus;
	int rc = 0;

	/* Batches of other programs' files may need --set gpus=N; without it gpus stays 0. */
	for (size_t i = 0; i < args->sets.n; i++)
		if (strncmp(args->sets.at[i], "gpus=", 5) == 0 &&
		    sc_parse_int(args->sets.at[i] + 5, &gpus))
			lines->gpus = gpus > 0 ? gpus : 0;
	lines->given = args->sets.at;
	lines->n_given = args->sets.n;
	lines->lenient = args->lenient;
	for (size_t i = 1; i < words->n && rc == 0; i++)
		rc = sc_foreign_load(lines, words->at[i], err);
	/* All that is wrong with a file's keys, a line each: the last is left to be said. */
	for (const struct sc_foreign_problem *p = lines->problems; p; p = p->next) {
		*err = p->err;
		if (p->next)
			sc_cli_fail(err);
	}
	if (rc == 0)
		rc = sc_foreign_finish(lines, err);
	if (rc == 0)
		rc = sc_config_take(sc_foreign_tree(lines, words->at[1]), lines->arena, config,
				    err);
	if (rc)
		return rc;
	for (const struct sc_foreign_line *line = lines->ignored; line; line = line->next) {
		n_ignored++;
		n_unknown += line->why == SC_IGNORED_UNKNOWN;
	}
	if (n_unknown)
		sc_cli_warn(&args->common,
			    "keys that are not understood are left out; the end of the config "
			    "lists them: n_keys=%zu",
			    n_unknown);
	if (n_ignored)
		sc_cli_warn(&args->common,
			    "keys that have no key of ours are not taken over; the end of the "
			    "config lists them: n_keys=%zu",
			    n_ignored);
	return sc_cli_set(&args->sets, lines->arena, config, err);
}

/* The shim prints the command that a script starts as a line for `config import`. `python -c` may
 * compute a value that the script needs: the next one in PATH runs it. The job of sbatch, a file or
 * its input, is a script, too; its number of nodes holds for its srun. */
static const char SHIM[] =
	"#!/bin/sh\n"
	"# Of `stepcast config import --shim`: prints its arguments for `stepcast config import`, and ends.\n"
	"name=${0##*/}\n"
	"case $name,$1 in\n"
	"python*,-c) PATH=${PATH#*:} exec \"$name\" \"$@\" ;;\n"
	"sbatch,*)\n"
	"\twords=$*\n"
	"\twhile [ $# -gt 0 ] && [ ! -f \"$1\" ]; do shift; done\n"
	"\tjob=$(cat ${1+\"$1\"})\n"
	"\tSTEPCAST_JOB=$(printf '%s\\n' \"$words\" \"$job\" | grep -E '^(#SBATCH|-)' |\n"
	"\t\tgrep -oE -e '(-N|--nodes|--gres|--gpus-per-node|--ntasks-per-node)[ =]*[a-z0-9:]*[0-9]' |\n"
	"\t\tsed 's/^-N/--nodes=/; s/^--gres.*[=:]/--gpus-per-node=/; s/[ =][ =]*/=/')\n"
	"\tsaid() { echo \"$STEPCAST_JOB\" | sed -n \"s/^--$1=//p\" | head -n 1; }\n"
	"\tnodes=$(said nodes) gpus=$(said gpus-per-node) tasks=$(said ntasks-per-node)\n"
	"\texport STEPCAST_JOB SLURM_NNODES=\"$nodes\" SLURM_JOB_NUM_NODES=\"$nodes\"\n"
	"\t[ -z \"$gpus\" ] || export SLURM_GPUS_PER_NODE=\"$gpus\" SLURM_GPUS_ON_NODE=\"${gpus##*:}\"\n"
	"\t[ -z \"$tasks\" ] || export SLURM_NTASKS_PER_NODE=\"$tasks\" SLURM_NTASKS=$((${nodes:-1} * tasks))\n"
	"\t[ $# -gt 0 ] || exec bash -c \"$job\"\n"
	"\texec bash \"$@\" ;;\n"
	"srun,*) set -- $STEPCAST_JOB \"$@\" ;;\n"
	"esac\n"
	"for word in \"$name\" \"$@\"; do\n"
	"\tcase $word in --*) printf '\\\\\\n' ;; esac\n"
	"\tprintf \"'%s' \" \"$(printf %s \"$word\" | sed \"s/'/'\\\\\\\\''/g\")\"\n"
	"done\n"
	"echo\n";

static int write_shim(const struct config_args *args, struct sc_arena *arena, struct sc_err *err)
{
	static const char *const names[] = {"torchrun",   "python", "python3", "srun", "deepspeed",
					    "accelerate", "sbatch", "uv",      "nsys", "mpirun"};
	int rc = 0;

	if (args->common.words.n != 1 || strcmp(args->common.words.at[0], "import") != 0)
		return sc_err_set(err, SC_EUSAGE, "--shim is of config import, and takes no FILE");
	if (mkdir(args->shim, 0777) != 0 && errno != EEXIST)
		return sc_err_at(err, SC_EIO, args->shim, 0, 0, "%s", strerror(errno));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == 0; i++) {
		const char *path = sc_arena_printf(arena, "%s/%s", args->shim, names[i]);
		struct sc_strbuf text = {0};

		sc_strbuf_append(&text, SHIM);
		rc = sc_cli_write_text(path, &text, err);
		if (rc == 0 && chmod(path, 0755) != 0)
			rc = sc_err_at(err, SC_EIO, path, 0, 0, "%s", strerror(errno));
		sc_strbuf_release(&text);
	}
	if (rc == 0)
		sc_cli_warn(
			&args->common,
			"your script runs for real but for what it starts with these programs; "
			"next: PATH=$(realpath %s):$PATH bash SCRIPT >run.args; stepcast config import run.args",
			args->shim);
	return rc;
}

static int answer(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct config_args *args = into;
	const struct sc_arg_list *words = &args->common.words;
	struct sc_foreign_lines lines = {.arena = call->arena};
	struct sc_strbuf text = {0};
	struct sc_evaluator *by;
	struct sc_config config;
	enum verb verb = CHECK;
	int rc;

	if (args->shim)
		return write_shim(args, call->arena, err);
	if (words->n && strcmp(words->at[0], "stack") == 0)
		return words->n == 1 && args->sets.n == 0
			       ? sc_cli_write_template("stack.yaml", call, err)
			       : sc_err_set(err, SC_EUSAGE,
					    "config stack takes no FILE and no --set");
	by = sc_evaluator_create(call->catalog);
	rc = verb_of(words, &verb, err);
	if (rc == 0)
		rc = verb == IMPORT
			     ? import_files(args, &lines, &config, err)
			     : sc_cli_config(words->at[1], &args->sets, call->arena, &config, err);
	if (rc == 0)
		rc = sc_evaluate_resolve(
			by, &(struct sc_candidate){.base = &config, .file = words->at[1]}, err);
	if (rc == 0) {
		sc_cli_warn_all(&args->common, &by->request.warnings);
		if (verb == SHOW)
			sc_config_show(&by->request, &text);
		else if (verb == IMPORT)
			sc_config_show_import(&config, &lines, &text);
		else if (verb == EXPORT)
			rc = sc_cli_export(call, &by->request,
					   args->to ? args->to : sc_export_targets[0], &text, err);
		else
			sc_strbuf_append(&text, "ok\n");
		if (rc == 0)
			rc = sc_cli_write_text(args->common.output, &text, err);
	}
	sc_strbuf_release(&text);
	sc_evaluator_destroy(by);
	return rc;
}

const struct sc_command sc_command_config = {
	.name = "config",
	.summary =
		"check a config, show it with every default filled in, or make one from other programs' files; ask for a stack",
	.synopsis =
		"(check|show) FILE | import FILE... [--lenient] [--set PATH=VALUE]... | import --shim DIR | export FILE --to PROGRAM | stack",
	.details =
		"check says ok, or what is wrong and where. show prints the config with every value filled in, each with "
		"its origin: a file and line, --set, the GPU's usual node, the software, or a default. Its output is a "
		"config again.\n\n"
		"import reads what other programs are run with: the arguments of Megatron-LM, as a log, ps or --shim "
		"prints them, YAML of NeMo or Megatron-Bridge, TOML of torchtitan, JSON of DeepSpeed, config.json of "
		"Hugging Face, a list of tables of TorchRec (Python, JSON or CSV). Several files, such as a DeepSpeed JSON "
		"and a config.json, describe one run together; if they disagree, that is an error. import writes a config "
		"whose lines name the line and key they come from, and lists at its end what it did not take over. A key "
		"that changes what a step costs and is not understood is an error that names it. --set gives what no file "
		"says, such as the GPU:\n\n"
		"  stepcast config import --shim shim\n"
		"  PATH=$(realpath shim):$PATH bash pretrain.sh >run.args\n"
		"  stepcast config import run.args --set cluster.gpu=h100-sxm-80gb -o ours.yaml\n"
		"  stepcast config import ds.json config.json --set gpus=64 --set model.seq=4096 --set "
		"cluster.gpu=a100-sxm-80gb\n\n"
		"export writes the config as what another program is started with: the arguments of Megatron-LM, TOML of "
		"torchtitan, JSON of DeepSpeed. It reads back what it wrote, and warns of each value that the program cannot "
		"be told.\n\n"
		"  stepcast config export best.yaml --to megatron\n\n"
		"stack writes a software profile as twelve questions with their usual answers, to copy and to answer: what a "
		"stack does is worth more to a prediction than what it is called. calibrate learns its numbers.\n\n"
		"  stepcast config stack -o software/my-stack.yaml",
	.words = "check show import export stack",
	.options = OPTIONS,
	.args_bytes = sizeof(struct config_args),
	.run = answer,
};
