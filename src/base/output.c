/* A part is locked while it is written: one that nobody holds was left by a program that was
 * killed. The parts that exist are listed for a signal handler, which removes them. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

#define PART_SUFFIX ".part"
enum { MAX_STEM = 200, MAX_TRIES = 100 };

/* Never freed, since a signal may come while one is looked at; used again. */
struct part {
	struct part *next;
	atomic_bool taken, live; /* live: if `path` is there, it is ours */
	char path[PATH_MAX];
};
struct sc_output {
	int fd;
	FILE *stream;                          /* over fd, or NULL */
	struct part *part;                     /* NULL: it is not removed */
	char path[PATH_MAX], target[PATH_MAX]; /* as named; what it is a link to, else the same */
	char written[PATH_MAX];                /* what fd is of */
};

static _Atomic(struct part *) parts;
static atomic_uint n_made;

/* --- signals --- */

static const int SIGNALS[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU};
enum { N_SIGNALS = sizeof(SIGNALS) / sizeof(SIGNALS[0]) };

static void remove_parts(int number)
{
	for (struct part *p = atomic_load(&parts); p; p = p->next)
		if (atomic_load(&p->live))
			unlink(p->path);
	/* Not SA_RESETHAND: a second signal while the first is delivered would end it. */
	signal(number, SIG_DFL);
	raise(number);
}

static void handle_signal(int number, void (*handler)(int))
{
	struct sigaction act = {.sa_handler = handler}, old;

	if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(number, &act, NULL);
}

static struct part *take_part(void)
{
	struct part *made;
	bool no = false;

	for (struct part *p = atomic_load(&parts); p; p = p->next, no = false)
		if (atomic_compare_exchange_strong(&p->taken, &no, true))
			return p;
	made = sc_xmalloc(sizeof(*made));
	atomic_init(&made->taken, true);
	atomic_init(&made->live, false);
	made->next = atomic_load(&parts);
	while (!atomic_compare_exchange_weak(&parts, &made->next, made))
		;
	return made;
}

static void free_part(struct part *part)
{
	atomic_store(&part->live, false);
	atomic_store(&part->taken, false);
}

/* --- the part beside a file --- */

static int folder_length(const char *path)
{
	return (int)(sc_file_name(path) - path);
}

/* A new file at `path`, locked; -1 with errno. Between its making and its lock another program may
 * have taken it for one that was left. */
static int make_locked(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0 || st.st_nlink > 0)
		return fd;
	close(fd);
	errno = EEXIST;
	return -1;
}

static void remove_if_left(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlink(path);
	close(fd);
}

/* Parts of `target` that nobody writes any more. */
static void remove_left(const char *target)
{
	char folder[PATH_MAX], stem[MAX_STEM + 3], path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%.*s.", folder_length(target), target);
	snprintf(stem, sizeof(stem), ".%.*s.", MAX_STEM, sc_file_name(target));
	dir = opendir(folder);
	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (strncmp(name, stem, strlen(stem)) == 0 && sc_ends_with(name, PART_SUFFIX) &&
		    (size_t)snprintf(path, sizeof(path), "%.*s%s", folder_length(target), target,
				     name) < sizeof(path))
			remove_if_left(path);
	}
	if (dir)
		closedir(dir);
}

static int open_part(struct sc_output *out)
{
	struct part *part = take_part();
	int fd = -1;

	/* Those that somebody ignores or handles stay as they are. */
	for (size_t i = 0; i < N_SIGNALS; i++)
		handle_signal(SIGNALS[i], remove_parts);
	remove_left(out->target);
	for (int i = 0; fd < 0 && i < MAX_TRIES; i++) {
		int n = snprintf(part->path, sizeof(part->path), "%.*s.%.*s.%ld-%u" PART_SUFFIX,
				 folder_length(out->target), out->target, MAX_STEM,
				 sc_file_name(out->target), (long)getpid(),
				 atomic_fetch_add(&n_made, 1));

		errno = ENAMETOOLONG;
		if ((size_t)n >= sizeof(part->path))
			break;
		atomic_store(&part->live, true);
		fd = make_locked(part->path);
		if (fd < 0 && errno != EEXIST)
			break;
		atomic_store(&part->live, fd >= 0);
	}
	if (fd < 0) {
		free_part(part);
		return -1;
	}
	out->part = part;
	memcpy(out->written, part->path, sizeof(out->written));
	return fd;
}

/* A file that is there stays until all rows are. */
static int open_rows(struct sc_output *out)
{
	if ((size_t)snprintf(out->written, sizeof(out->written), "%s" PART_SUFFIX, out->target) >=
	    sizeof(out->written)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	remove_if_left(out->written);
	return make_locked(out->written);
}

/* --- the interface --- */

/* Opens what is to be written: -1 with errno. `keeps_rows`: as sc_output_create. */
static int open_output(struct sc_output *out, bool keeps_rows)
{
	struct stat st, own;
	bool is_there = stat(out->path, &st) == 0;
	int fd;

	errno = !*out->path ? ENOENT : EISDIR;
	if (!*sc_file_name(out->path) || (is_there && S_ISDIR(st.st_mode)) ||
	    (is_there && access(out->path, W_OK) != 0))
		return -1;
	handle_signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of write */
	memcpy(out->written, out->path, sizeof(out->written));
	/* Descriptors, under any name: what stands behind them is not ours to replace. */
	if ((strncmp(out->path, "/proc/", 6) == 0 || strncmp(out->path, "/dev/fd/", 8) == 0 ||
	     strcmp(out->path, "/dev/stdout") == 0 || strcmp(out->path, "/dev/stderr") == 0) ||
	    (is_there ? !S_ISREG(st.st_mode) : keeps_rows)) {
		memcpy(out->target, out->path, sizeof(out->target));
		return open(out->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	}
	if (lstat(out->path, &own) != 0 || !S_ISLNK(own.st_mode) ||
	    !realpath(out->path, out->target))
		memcpy(out->target, out->path, sizeof(out->target));
	fd = keeps_rows ? open_rows(out) : open_part(out);
	if (fd >= 0 && is_there)
		(void)!fchmod(fd, st.st_mode & 07777);
	return fd;
}

static int output_fail(const struct sc_output *out, struct sc_err *err)
{
	if (errno == EEXIST)
		return sc_err_at(
			err, SC_EIO, out->written, 0, 0,
			"cannot write: it is a link or no file, or another program writes it; "
			"remove it, or choose another output");
	return sc_err_at(err, SC_EIO, out->path, 0, 0, "cannot write: %s", strerror(errno));
}

static void output_free(struct sc_output *out)
{
	if (out->part)
		free_part(out->part);
	free(out);
}

int sc_output_create(const char *path, bool keeps_rows, struct sc_output **result,
		     struct sc_err *err)
{
	struct sc_output *out = sc_xmalloc(sizeof(*out));
	size_t n = strlen(path);
	int rc;

	memset(out, 0, sizeof(*out));
	memcpy(out->path, path, n < sizeof(out->path) ? n : sizeof(out->path) - 1);
	errno = ENAMETOOLONG;
	out->fd = n < sizeof(out->path) ? open_output(out, keeps_rows) : -1;
	if (out->fd >= 0) {
		*result = out;
		return 0;
	}
	rc = output_fail(out, err);
	output_free(out);
	return rc;
}

FILE *sc_output_stream(struct sc_output *out)
{
	if (!out->stream)
		out->stream = fdopen(out->fd, "w");
	return out->stream;
}

int sc_output_fd(const struct sc_output *out)
{
	return out->fd;
}

const char *sc_output_part(const struct sc_output *out)
{
	return out->written;
}

static int close_output(struct sc_output *out)
{
	bool failed = out->stream && ferror(out->stream);

	errno = 0;
	if ((out->stream ? fclose(out->stream) : close(out->fd)) != 0)
		return -1;
	errno = EIO;
	return failed ? -1 : 0;
}

static void output_end(struct sc_output *out, bool removes)
{
	if (removes && out->part)
		unlink(out->part->path);
	output_free(out);
}

int sc_output_commit(struct sc_output *out, const char *path, struct sc_err *err)
{
	const char *target = path ? path : out->target;
	int rc = 0;

	if (close_output(out) != 0 ||
	    (strcmp(out->written, target) != 0 && rename(out->written, target) != 0))
		rc = output_fail(out, err);
	output_end(out, rc != 0);
	return rc;
}

void sc_output_discard(struct sc_output *out)
{
	close_output(out);
	output_end(out, true);
}
