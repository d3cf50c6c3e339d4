/* Reading through zlib, which passes plain files on as they are. */
#define _GNU_SOURCE /* dladdr */
#include "base/file.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/search.h"
#include "base/vec.h"

enum { MIN_BUFFER = 4096, MAX_CHUNK = 1 << 30 };

struct buffer {
	const char *path;
	size_t max_bytes;
	char *at;
	size_t n, cap;
	struct sc_err *err;
};

static int too_large(const struct buffer *b)
{
	return sc_err_at(b->err, SC_ELIMIT, b->path, 0, 0,
			 "the file is too large; at most %zu bytes are read", b->max_bytes);
}

static int stream_error(gzFile stream, const char *path, struct sc_err *err)
{
	int code;
	const char *text = gzerror(stream, &code);

	if (code == Z_ERRNO)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot be read: %s", strerror(errno));
	if (strncmp(text, "<fd:", 4) == 0 && strstr(text, ">: ")) /* zlib names our descriptor */
		text = strstr(text, ">: ") + 3;
	return sc_err_at(err, SC_EFORMAT, path, 0, 0, "damaged gzip data: %s", text);
}

static int read_stream(gzFile stream, struct buffer *buffer)
{
	size_t max_bytes = buffer->max_bytes;
	const bool packed = !gzdirect(stream) && max_bytes > SC_FILE_MAX_UNPACKED;

	if (packed)
		max_bytes = SC_FILE_MAX_UNPACKED;
	for (;;) {
		size_t room = buffer->cap - buffer->n;
		int n = gzread(stream, buffer->at + buffer->n,
			       (unsigned)(room < MAX_CHUNK ? room : MAX_CHUNK));

		if (n < 0)
			return stream_error(stream, buffer->path, buffer->err);
		if (n == 0)
			return 0;
		buffer->n += (size_t)n;
		if (buffer->n > max_bytes && packed)
			return sc_err_at(buffer->err, SC_ELIMIT, buffer->path, 0, 0,
					 "the packed file holds more than %zu bytes; unpack it",
					 max_bytes);
		if (buffer->n > max_bytes)
			return too_large(buffer);
		if (buffer->n == buffer->cap) {
			buffer->cap = buffer->cap > max_bytes / 2 ? max_bytes + 1 : buffer->cap * 2;
			buffer->at = sc_xrealloc(buffer->at, buffer->cap, 1);
		}
	}
}

/* A plain file's size says how much to expect; one byte more tells that it has ended. */
static int check_file(int fd, struct buffer *buffer)
{
	const char *path = buffer->path;
	struct sc_err *err = buffer->err;
	struct stat info;
	size_t expected = 0;

	if (fstat(fd, &info) != 0)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot be read: %s", strerror(errno));
	if (S_ISDIR(info.st_mode))
		return sc_err_at(err, SC_EIO, path, 0, 0, "is a folder; name a file");
	if (S_ISREG(info.st_mode)) {
		if ((unsigned long long)info.st_size > buffer->max_bytes)
			return too_large(buffer);
		expected = (size_t)info.st_size;
	}
	buffer->cap = expected + 1 > MIN_BUFFER ? expected + 1 : MIN_BUFFER;
	buffer->at = sc_xmalloc(buffer->cap);
	return 0;
}

int sc_file_read(const char *path, size_t max_bytes, struct sc_source *out, struct sc_err *err)
{
	struct buffer buffer = {.path = path, .max_bytes = max_bytes, .err = err};
	gzFile stream;
	int fd, rc;

	*out = (struct sc_source){.file = path};
	if (!path[0])
		return sc_err_set(err, SC_EIO, "the name of a file is empty");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot be opened: %s", strerror(errno));
	rc = check_file(fd, &buffer);
	stream = rc ? NULL : gzdopen(fd, "rb");
	if (!stream) {
		close(fd);
		free(buffer.at);
		return rc ? rc
			  : sc_err_at(err, SC_EIO, path, 0, 0, "cannot be read: out of memory");
	}
	rc = read_stream(stream, &buffer);
	if (gzclose_r(stream) == Z_BUF_ERROR && rc == 0)
		rc = sc_err_at(err, SC_EFORMAT, path, 0, 0, "the gzip data is cut off");
	if (rc) {
		free(buffer.at);
		return rc;
	}
	assert(buffer.at);
	buffer.at[buffer.n] = '\0';
	out->text = buffer.at;
	out->n = buffer.n;
	return 0;
}

static int make_one(const char *path)
{
	struct stat st;

	if (mkdir(path, 0777) == 0)
		return 0;
	if (errno == EEXIST && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		errno = ENOTDIR;
	return errno == EEXIST ? 0 : -1;
}

int sc_make_folder(const char *path, struct sc_err *err)
{
	size_t n = strlen(path);
	char *part = sc_xmalloc(n + 1);
	int failed = 0;

	memcpy(part, path, n + 1);
	for (size_t i = 1; i < n && !failed; i++) {
		if (part[i] != '/')
			continue;
		part[i] = '\0';
		failed = make_one(part);
		part[i] = '/';
	}
	failed = failed || make_one(part);
	free(part);
	if (failed)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot make the folder: %s",
				 strerror(errno));
	return 0;
}

int sc_folder_list(const char *folder, const char *prefix, const char *suffix,
		   struct sc_arena *arena, const char *const **files, size_t *n, struct sc_err *err)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	SC_VEC(const char *) found = {0};
	const char **paths;
	size_t n_folder = strlen(folder);

	if (!dir)
		return sc_err_at(err, SC_EIO, folder, 0, 0, "cannot read: %s", strerror(errno));
	while (n_folder > 1 && folder[n_folder - 1] == '/')
		n_folder--;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && sc_ends_with(entry->d_name, suffix) &&
		    sc_begins_with(entry->d_name, prefix))
			SC_VEC_PUSH(&found, sc_arena_printf(arena, "%.*s/%s", (int)n_folder, folder,
							    entry->d_name));
	closedir(dir);
	SC_SORT(found.at, found.n, sc_compare_texts);
	paths = sc_arena_calloc(arena, found.n, sizeof(*paths));
	for (size_t i = 0; i < found.n; i++)
		paths[i] = found.at[i];
	*files = paths;
	*n = found.n;
	SC_VEC_RELEASE(&found);
	return 0;
}

bool sc_begins_with(const char *text, const char *begin)
{
	return strncmp(text, begin, strlen(begin)) == 0;
}

bool sc_ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

const char *sc_beside_program(const char *path, struct sc_arena *arena)
{
	static const char here;
	const char *found = NULL;
	char *self = NULL, *real = NULL;
	Dl_info info;

	/* A program's name is what its caller calls it: through $PATH, no file. */
	if (dladdr(&here, &info) && strchr(info.dli_fname, '/'))
		self = realpath(info.dli_fname, NULL);
	if (!self)
		self = realpath("/proc/self/exe", NULL);
	if (self)
		real = realpath(sc_arena_printf(arena, "%.*s%s", (int)(sc_file_name(self) - self),
						self, path),
				NULL);
	if (real)
		found = sc_arena_strdup(arena, real);
	free(real);
	free(self);
	return found;
}
