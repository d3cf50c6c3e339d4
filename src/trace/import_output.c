/* Output is written beside its final name and renamed at the end, when the rank is known. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/import_priv.h"

void sc_import_stem(const char *path, char *buf, size_t n_buf)
{
	static const char *const endings[] = {".gz", ".json",   ".trace", ".pt",
					      ".et", ".etplus", ".chakra"};
	bool again = true;
	size_t n;

	snprintf(buf, n_buf, "%s", sc_file_name(path));
	while (again) {
		again = false;
		n = strlen(buf);
		for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
			size_t n_end = strlen(endings[i]);

			if (n > n_end && sc_ends_with(buf, endings[i])) {
				buf[n - n_end] = '\0';
				again = true;
				break;
			}
		}
	}
}

static bool take_number(const char *at, int32_t *out)
{
	int64_t value = 0;

	if (!isdigit((unsigned char)*at))
		return false;
	for (; isdigit((unsigned char)*at); at++) {
		value = value * 10 + (*at - '0');
		if (value > INT32_MAX)
			return false;
	}
	*out = (int32_t)value;
	return true;
}

int32_t sc_import_rank_of_name(const char *path)
{
	static const char *const words[] = {"rank", "worker", "Rank"};
	const char *name = sc_file_name(path), *dot;
	int32_t rank = -1;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = strstr(name, words[i]);

		if (!at)
			continue;
		at += strlen(words[i]);
		at += *at == '_' || *at == '-' || *at == '.';
		if (take_number(at, &rank))
			return rank;
	}
	for (dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		const char *end = dot + 1 + strspn(dot + 1, "0123456789");

		/* "1.0.4.json" is a version. */
		if (dot > name && !isdigit((unsigned char)dot[-1]) && end > dot + 1 &&
		    (strncmp(end, ".et", 3) == 0 || strncmp(end, ".json", 5) == 0) &&
		    end - dot < 8 && take_number(dot + 1, &rank))
			return rank;
	}
	return -1;
}

int sc_import_output_create(struct sc_import_output *out, const char *in_path, const char *dir,
			    const struct sc_import_opts *opts, const char *source,
			    struct sc_err *err)
{
	char stem[256];
	int n;

	*out = (struct sc_import_output){.in_path = in_path, .dir = dir, .opts = opts};
	out->identity =
		(struct sc_trace_identity){.rank = -1, .world = -1, .local_rank = -1, .pid = -1};
	snprintf(out->identity.source, sizeof(out->identity.source), "%s", source);
	sc_import_stem(opts->stem ? opts->stem : in_path, stem, sizeof(stem));
	n = snprintf(out->tmp, sizeof(out->tmp), "%s/.%s.%ld.part", dir, stem, (long)getpid());
	if (n < 0 || (size_t)n >= sizeof(out->tmp))
		return sc_err_at(err, SC_EIO, dir, 0, 0, "the name of the folder is too long");
	if (sc_make_folder(dir, err)) {
		out->tmp[0] = '\0';
		return -SC_EIO;
	}
	return sc_trace_writer_create(out->tmp, &out->identity, &out->writer, err);
}

static int32_t settle_rank(const struct sc_import_output *out)
{
	int32_t of_name;

	if (out->opts->rank >= 0)
		return out->opts->rank;
	if (out->identity.rank >= 0)
		return out->identity.rank;
	of_name = sc_import_rank_of_name(out->in_path);
	return of_name >= 0 ? of_name : out->opts->other_rank;
}

static int give_name(const struct sc_import_output *out, int32_t rank, struct sc_err *err)
{
	char stem[256], path[4096], number[32];
	int n;

	sc_import_stem(out->opts->stem ? out->opts->stem : out->in_path, stem, sizeof(stem));
	snprintf(number, sizeof(number), "rank%d", (int)rank);
	if (rank < 0 || (strncmp(stem, number, strlen(number)) == 0 &&
			 !isdigit((unsigned char)stem[strlen(number)])))
		n = snprintf(path, sizeof(path), "%s/%s%s", out->dir, stem, SC_TRACE_SUFFIX);
	else
		n = snprintf(path, sizeof(path), "%s/%s.%s%s", out->dir, stem, number,
			     SC_TRACE_SUFFIX);
	if (n < 0 || (size_t)n >= sizeof(path))
		return sc_err_at(err, SC_EIO, out->dir, 0, 0, "the name of the output is too long");
	if (rename(out->tmp, path) != 0)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot write: %s", strerror(errno));
	return 0;
}

int sc_import_output_finish(struct sc_import_output *out, struct sc_import_stats *stats,
			    struct sc_err *err)
{
	struct sc_trace_writer *writer = out->writer;
	int rc;

	out->writer = NULL;
	stats->rank = out->identity.rank = settle_rank(out);
	sc_trace_writer_identity(writer, &out->identity);
	rc = sc_trace_writer_finish(writer, err);
	if (rc == 0)
		rc = give_name(out, out->identity.rank, err);
	if (rc == 0)
		out->tmp[0] = '\0';
	return rc;
}

void sc_import_output_discard(struct sc_import_output *out)
{
	if (out->writer)
		sc_trace_writer_finish(out->writer, NULL);
	out->writer = NULL;
	if (out->tmp[0])
		unlink(out->tmp);
	out->tmp[0] = '\0';
}
