/* stepcast record: runs a command with the tracer in it, and makes the traces whole afterwards. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "trace/capture/raw_file.h"
#include "trace/capture/recover.h"
#include "trace/format/trace_file.h"
#include "trace/format/trace_loss.h"

#define LIBRARY "libnccl-profiler-stepcast.so"
#define DEFAULT_DIR "stepcast-traces"
enum { CANNOT_RUN = 126, NOT_FOUND = 127, OF_SIGNAL = 128 }; /* as shells say it */

struct record_args {
	struct sc_common common;
	const char *iteration_range, *recover;
	int no_pack;
};

#define SC_ARGS struct record_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_TEXT(iteration_range, "iteration-range", "NAME",
		    "the NVTX range that is one iteration (default: found by what repeats)"),
	SC_OPT_FLAG(no_pack, "no-pack",
		    "leave the traces as they were written: larger, readable all the same"),
	SC_OPT_TEXT(recover, "recover", "DIR",
		    "run nothing; repair what killed processes left in DIR"),
	{0},
};

/* --- files of a recording --- */

static int recover_one(const struct record_args *args, const char *path, struct sc_err *err)
{
	const struct sc_common *common = &args->common;
	struct sc_recovery result, packed;
	const char *why;
	int rc;

	if (sc_capture_is_running(path)) {
		sc_cli_warn(common, "%s: its process runs still; left alone", path);
		return 0;
	}
	rc = sc_capture_recover(path, &result, err);
	if (rc)
		return rc;
	if (!*result.path) {
		sc_cli_warn(common, "%s: its process ended before it could record; removed", path);
		return 0;
	}
	/* A killed process and one that calls _exit leave the same. */
	why = result.was_killed ? "its process ended at once (killed, or by _exit)"
				: "CUPTI kept its last buffers";
	if (result.write_error)
		why = strerror(result.write_error);
	sc_cli_warn(common, "%s: %s%s; recovered events=%lld torn=%lld unnamed=%lld", result.path,
		    result.write_error ? "its process could not write all: " : "", why,
		    (long long)result.n_recovered, (long long)result.n_torn,
		    (long long)result.n_unnamed);
	/* After a run of our own all of its traces are packed together. */
	return args->recover && !args->no_pack && result.n_events
		       ? sc_capture_pack(result.path, &packed, err)
		       : 0;
}

/* A file that cannot be recovered does not keep the others from it; the first fault is returned. */
static int recover_all(const struct record_args *args, const char *dir, const char *run,
		       struct sc_arena *arena, struct sc_err *err)
{
	const char *const *paths;
	size_t n = 0;
	int rc = sc_folder_list(dir, run, SC_RAW_SUFFIX, arena, &paths, &n, err);

	for (size_t i = 0; i < n; i++) {
		int one_rc = recover_one(args, paths[i], rc ? NULL : err);

		rc = rc ? rc : one_rc;
	}
	return rc;
}

/* False: `path` is no file that says why a process was not recorded. */
static bool say_failure(const struct sc_common *common, const char *path)
{
	const char *at = strstr(sc_file_name(path), SC_RAW_FAILED);
	FILE *file = at ? fopen(path, "r") : NULL;
	char text[256];
	int64_t error = EIO;

	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file)) {
		sc_parse_int(at + strlen(SC_RAW_FAILED), &error);
		snprintf(text, sizeof(text), "a process was not recorded: %s",
			 strerror((int)error));
	}
	fclose(file);
	sc_cli_warn(common, "%.*s: %s", (int)(at - path), path, text);
	unlink(path);
	return true;
}

static int finish_traces(const struct record_args *args, const char *dir, const char *run,
			 struct sc_cli_call *call, struct sc_err *err)
{
	const char *const *paths;
	struct sc_recovery result;
	struct sc_trace_loss loss;
	int64_t n_events = 0;
	size_t n = 0, n_failed = 0;
	int rc = sc_folder_list(dir, run, "", call->arena, &paths, &n, err);

	for (size_t i = 0; i < n; i++)
		n_failed += say_failure(&args->common, paths[i]);
	if (rc == 0)
		rc = recover_all(args, dir, run, call->arena, err);
	if (rc == 0)
		rc = sc_folder_list(dir, run, SC_TRACE_SUFFIX, call->arena, &paths, &n, err);
	for (size_t i = 0; rc == 0 && !args->no_pack && i < n; i++) {
		rc = sc_capture_pack(paths[i], &result, err);
		n_events += rc == 0 ? result.n_events : 0;
	}
	if (n_failed && call->exit_code == SC_EXIT_DONE)
		call->exit_code = SC_EXIT_DATA;
	if (rc == 0 && n == 0 && !n_failed)
		sc_cli_warn(
			&args->common,
			"nothing was recorded: no process used CUDA, NVTX or NCCL where the tracer "
			"could see it");
	else if (rc == 0 && n && args->common.verbose)
		sc_cli_say("recorded traces=%zu events=%lld", n, (long long)n_events);
	if (rc == 0)
		rc = sc_trace_loss_of_run(paths, n, &loss, err);
	if (rc == 0) {
		sc_cli_warn_loss(&args->common, &loss);
		/* A recording that lacks most of what its command did has failed. */
		if (call->exit_code == SC_EXIT_DONE && !sc_trace_loss_stands(&loss))
			call->exit_code = SC_EXIT_DATA;
	}
	return rc;
}

/* --- running the command --- */

static bool is_library(const char *path)
{
	static const char magic[] = {0x7f, 'E', 'L', 'F'};
	char head[sizeof(magic)] = {0};
	FILE *in = path ? fopen(path, "rb") : NULL;
	bool is = in && fread(head, sizeof(head), 1, in) == 1 && memcmp(head, magic, 4) == 0;

	if (in)
		fclose(in);
	return is;
}

/* CUDA's driver passes over what it cannot load without a word, so this refuses it before the
 * command runs. The path is absolute: the command may work in another folder. */
static int find_library(struct sc_arena *arena, const char **out, struct sc_err *err)
{
	/* from the program's folder: a build's, a bundle's or a wheel's, an installation's */
	static const char *const from[] = {LIBRARY, "../lib/" LIBRARY,
					   SC_CAPTURE_FROM_PROGRAM "/" LIBRARY};
	const char *own = getenv("STEPCAST_CAPTURE"), *found = NULL;

	if (own && *own) {
		char *real = realpath(own, NULL);

		found = real ? sc_arena_strdup(arena, real) : NULL;
		free(real);
		if (!is_library(found))
			return sc_err_set(
				err, SC_EIO,
				"STEPCAST_CAPTURE is \"%.160s\", which is not a shared library; "
				"unset it, or set it to the path of " LIBRARY,
				own);
	}
	for (size_t i = 0; !found && i < sizeof(from) / sizeof(from[0]); i++)
		found = sc_beside_program(from[i], arena);
	if (!is_library(found))
		return sc_err_set(
			err, SC_EIO,
			"the tracer " LIBRARY
			" is neither beside the program nor in ../lib or " SC_CAPTURE_FROM_PROGRAM
			"; set STEPCAST_CAPTURE to its path");
	*out = found;
	return 0;
}

static void set_environment(const struct record_args *args, const char *library, const char *dir,
			    const char *run)
{
	/* The bare name for NCCL: 2.27.3 takes no path, and CUDA's driver has loaded it by then. */
	const char *const taken[][2] = {{"CUDA_INJECTION64_PATH", library},
					{"NVTX_INJECTION64_PATH", library},
					{"NCCL_PROFILER_PLUGIN", LIBRARY}};

	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		if (getenv(taken[i][0]))
			sc_cli_warn(&args->common, "%s was set to %s; replaced", taken[i][0],
				    getenv(taken[i][0]));
		setenv(taken[i][0], taken[i][1], 1);
	}
	setenv("STEPCAST_DIR", dir, 1);
	setenv("STEPCAST_RUN_ID", run, 1);
	if (args->iteration_range)
		setenv("STEPCAST_ITERATION_RANGE", args->iteration_range, 1);
}

static int run_child(char **command, int *exit_code, struct sc_err *err)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
	int status = 0;
	pid_t child;

	fflush(NULL);
	sigaction(SIGINT, &ignore, &interrupt);
	sigaction(SIGQUIT, &ignore, &quit);
	child = fork();
	if (child == 0) {
		sigaction(SIGINT, &interrupt, NULL);
		sigaction(SIGQUIT, &quit, NULL);
		execvp(command[0], command);
		fprintf(stderr, "error: cannot run %s: %s\n", command[0], strerror(errno));
		_exit(errno == ENOENT ? NOT_FOUND : CANNOT_RUN);
	}
	/* Signals from the terminal reach the command too, which decides what they mean. */
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child > 0)
		*exit_code =
			WIFSIGNALED(status) ? OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGQUIT, &quit, NULL);
	if (child < 0)
		return sc_err_set(err, SC_EIO, "cannot start a process: %s", strerror(errno));
	return 0;
}

static int record_program(const struct record_args *args, char **command, struct sc_cli_call *call,
			  struct sc_err *err)
{
	const bool has_dir = strcmp(args->common.output, "-") != 0;
	const char *dir = has_dir ? args->common.output : DEFAULT_DIR;
	char absolute[4096], run[32];
	const char *library = NULL;
	struct timespec now;
	int rc = find_library(call->arena, &library, err);

	if (rc == 0)
		rc = sc_make_folder(dir, err);
	if (rc == 0 && !realpath(dir, absolute)) /* the command may work elsewhere */
		rc = sc_err_at(err, SC_EIO, dir, 0, 0, "%s", strerror(errno));
	if (rc == 0) {
		/* The number is no secret: it only keeps the files of different runs apart. */
		clock_gettime(CLOCK_REALTIME, &now);
		snprintf(run, sizeof(run), "%08llx%05x", (unsigned long long)now.tv_sec,
			 (unsigned)(now.tv_nsec / SC_NS_PER_US ^ getpid()) & 0xfffff);
		set_environment(args, library, absolute, run);
		rc = run_child(command, &call->exit_code, err);
	}
	if (rc == 0)
		rc = finish_traces(args, dir, run, call, err);
	return rc;
}

static int go(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct record_args *args = into;
	char **command = (char **)args->common.words.at; /* NULL-ended */

	if (args->recover && *command)
		return sc_err_set(err, SC_EUSAGE, "--recover runs no command");
	if (args->recover)
		return recover_all(args, args->recover, "", call->arena, err);
	if (!*command)
		return sc_err_set(err, SC_EUSAGE, "record needs a COMMAND to run");
	return record_program(args, command, call, err);
}

const struct sc_command sc_command_record = {
	.name = "record",
	.summary = "run a command and record what it does on the GPUs",
	.synopsis = "[-o DIR] [--iteration-range NAME] [--] COMMAND [ARGUMENT]...",
	.details =
		"Runs COMMAND with the tracer in it and in every process that it starts, and leaves one trace per process "
		"in DIR (default: stepcast-traces): kernels, copies, calls of the CUDA runtime and driver, event records "
		"and waits, NVTX ranges, and NCCL's calls. The program needs no change, and the tracer never makes it "
		"fail.\n\n"
		"Put stepcast before torchrun, mpirun or srun, or before the program; it reads ranks from the environment "
		"that the launcher sets. On several nodes, put DIR on a file system that all see, or gather the files "
		"later.\n\n"
		"  stepcast record -o run1 -- torchrun --nproc-per-node 8 train.py\n\n"
		"When COMMAND ends, stepcast recovers what killed processes had not written yet. After a crash of stepcast "
		"itself, run stepcast record --recover DIR.\n\n"
		"stepcast says what was lost, and its share. The exit code is that of COMMAND; 128 and the signal's number "
		"if one ended it; 1 if COMMAND ended with 0, but more than 1 % of the events were lost, CUPTI recorded no "
		"kernels, or another profiler in the program took its records.",
	.words = "file",
	.options = OPTIONS,
	.output_arg = "DIR",
	.output_help = "the folder the trace files are written to (default: stepcast-traces)",
	.runs_another = true,
	.args_bytes = sizeof(struct record_args),
	.run = go,
};
