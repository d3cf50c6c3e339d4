/* Draws through gnuplot, which reads the script from a pipe. */
#include "cli/plot_file.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"

enum { MAX_PATH_BYTES = 4096 };

static const char *plot_terminal(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && strcmp(dot, ".svg") == 0)
		return "svg";
	return dot && strcmp(dot, ".png") == 0 ? "png" : NULL;
}

static bool is_in_path(const char *program)
{
	const char *path = getenv("PATH");
	char file[MAX_PATH_BYTES];

	while (path && *path) {
		size_t n = strcspn(path, ":");
		int used = snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, program);

		if (used > 0 && (size_t)used < sizeof(file) && access(file, X_OK) == 0)
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

/* A gnuplot that ends early must not end this program. */
static int pipe_to_gnuplot(const struct sc_strbuf *script, struct sc_err *err)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
	FILE *pipe;
	int status;

	sigaction(SIGPIPE, &ignore, &old);
	fflush(stdout);
	pipe = popen("gnuplot", "w");
	if (pipe)
		fwrite(sc_strbuf_get(script), 1, script->n, pipe);
	status = pipe ? pclose(pipe) : -1;
	sigaction(SIGPIPE, &old, NULL);
	if (status == 0)
		return 0;
	return sc_err_set(err, SC_EIO, "gnuplot failed; --plot wrote nothing usable");
}

int sc_cli_plot(const char *path, sc_cli_plotter put, const void *ctx, struct sc_err *err)
{
	struct sc_strbuf script = {0};
	struct sc_output *out;
	int rc = sc_output_create(path, &out, err);

	if (rc)
		return rc;
	put(ctx, plot_terminal(path), sc_output_part(out), &script);
	rc = pipe_to_gnuplot(&script, err);
	sc_strbuf_release(&script);
	if (rc == 0)
		return sc_output_commit(out, NULL, err);
	sc_output_discard(out);
	return rc;
}

int sc_cli_plot_check(const char *path, struct sc_err *err)
{
	if (!path)
		return 0;
	if (!plot_terminal(path))
		return sc_err_set(err, SC_EUSAGE,
				  "--plot: expected FILE.svg or FILE.png, got \"%.64s\"", path);
	if (!is_in_path("gnuplot"))
		return sc_err_set(err, SC_EIO,
				  "--plot needs gnuplot, and there is none in PATH; install the "
				  "package gnuplot-nox or leave --plot out");
	return 0;
}
