/* Files written beside and renamed: what is there before, during and after, and what a signal
 * leaves. */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "runner.h"

static char dir[64], path[96], link_path[96];
static struct sc_err err;

static void set_up(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_output.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	snprintf(link_path, sizeof(link_path), "%s/link", dir);
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	unlink(path);
	unlink(link_path);
	ck_assert_int_eq(rmdir(dir), 0); /* nothing else was left */
}

static void put(const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static const char *get(void)
{
	static char text[64];
	FILE *file = fopen(path, "r");

	if (!file)
		return "none";
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static int count_files(void)
{
	struct dirent *entry;
	DIR *at = opendir(dir);
	int n = 0;

	while ((entry = readdir(at)))
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(at);
	return n;
}

static struct sc_output *begin(const char *name)
{
	struct sc_output *out;

	ck_assert_msg(sc_output_create(name, false, &out, &err) == 0, "%s", err.text);
	fputs("new", sc_output_stream(out));
	fflush(sc_output_stream(out));
	return out;
}

FIXTURE(set_up, tear_down)

TEST(test_commit)
{
	struct sc_output *out = begin(path);

	ck_assert_str_eq(get(), "none");
	ck_assert_int_eq(sc_output_commit(out, NULL, &err), 0);
	ck_assert_str_eq(get(), "new");
	put("old");
	ck_assert_int_eq(chmod(path, 0640), 0);
	out = begin(path);
	ck_assert_str_eq(get(), "old");
	ck_assert_int_eq(count_files(), 2);
	ck_assert_int_eq(sc_output_commit(out, NULL, &err), 0);
	ck_assert_str_eq(get(), "new");
	ck_assert_int_eq(count_files(), 1);
}

TEST(test_mode_stays)
{
	struct stat st;

	put("old");
	ck_assert_int_eq(chmod(path, 0604), 0);
	ck_assert_int_eq(sc_output_commit(begin(path), NULL, &err), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0604);
}

TEST(test_discard)
{
	put("old");
	sc_output_discard(begin(path));
	ck_assert_str_eq(get(), "old");
	ck_assert_int_eq(count_files(), 1);
}

TEST(test_link_stays)
{
	struct stat st;

	put("old");
	ck_assert_int_eq(symlink("file", link_path), 0);
	ck_assert_int_eq(sc_output_commit(begin(link_path), NULL, &err), 0);
	ck_assert_str_eq(get(), "new");
	ck_assert_int_eq(lstat(link_path, &st), 0);
	ck_assert(S_ISLNK(st.st_mode));
}

TEST(test_other_name)
{
	char other[96];

	put("old");
	snprintf(other, sizeof(other), "%s/link", dir);
	ck_assert_int_eq(sc_output_commit(begin(path), other, &err), 0);
	ck_assert_str_eq(get(), "old");
	ck_assert_int_eq(access(other, F_OK), 0);
	ck_assert_int_eq(count_files(), 2);
}

TEST(test_two_at_once)
{
	struct sc_output *a = begin(path), *b = begin(path);

	ck_assert_int_eq(count_files(), 2);
	ck_assert_int_eq(sc_output_commit(a, NULL, &err), 0);
	ck_assert_int_eq(sc_output_commit(b, NULL, &err), 0);
	ck_assert_int_eq(count_files(), 1);
}

/* Rows go to file.part. What a run left there is replaced, and not written through: it may be
 * another name of a file. */
TEST(test_rows_left)
{
	struct sc_output *out;

	snprintf(link_path, sizeof(link_path), "%s/file.part", dir);
	put("old");
	ck_assert_int_eq(link(path, link_path), 0);
	ck_assert_int_eq(sc_output_create(path, true, &out, &err), 0);
	ck_assert_str_eq(sc_output_part(out), link_path);
	fputs("new", sc_output_stream(out));
	fflush(sc_output_stream(out));
	ck_assert_str_eq(get(), "old");
	ck_assert_int_eq(sc_output_commit(out, NULL, &err), 0);
	ck_assert_str_eq(get(), "new");
	ck_assert_int_eq(count_files(), 1);
}

/* A link is not ours, and neither is what another run writes. */
LOOP_TEST(test_rows_in_the_way, 2)
{
	struct sc_output *out, *other = NULL;

	snprintf(link_path, sizeof(link_path), "%s/file.part", dir);
	put("old");
	if (_i == 0)
		ck_assert_int_eq(symlink(path, link_path), 0);
	else
		ck_assert_int_eq(sc_output_create(path, true, &other, &err), 0);
	ck_assert_int_eq(sc_output_create(path, true, &out, &err), -SC_EIO);
	ck_assert_str_eq(err.file, link_path);
	ck_assert_str_eq(get(), "old");
	if (other)
		ck_assert_int_eq(sc_output_commit(other, NULL, &err), 0);
	ck_assert_int_eq(count_files(), 2 - _i);
}

static const struct {
	const char *name, *text;
} refused[] = {
	{"", "cannot write: No such file or directory"},
	{"/tmp", "cannot write: Is a directory"},
	{"/tmp/", "cannot write: Is a directory"},
	{"/no/such/folder/file", "cannot write: No such file or directory"},
};

LOOP_TEST(test_refused, N_OF(refused))
{
	struct sc_output *out;

	ck_assert_int_eq(sc_output_create(refused[_i].name, false, &out, &err), -SC_EIO);
	ck_assert_str_eq(err.text, refused[_i].text);
	ck_assert_str_eq(err.file, refused[_i].name);
}

TEST(test_full)
{
	struct sc_output *out;

	ck_assert_int_eq(sc_output_create("/dev/full", false, &out, &err), 0);
	fputs("new", sc_output_stream(out));
	ck_assert_int_eq(sc_output_commit(out, NULL, &err), -SC_EIO);
	ck_assert_str_eq(err.text, "cannot write: No space left on device");
}

/* The signal that ended a program which wrote. */
static int write_and_get(int signal_number, void (*disposition)(int))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		signal(signal_number, disposition);
		begin(path);
		raise(signal_number);
		_exit(7);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU};

/* Children of these end where they stand, and give nothing back. */
FORK_TEST(test_signal, N_OF(signals))
{
	put("old");
	ck_assert_int_eq(write_and_get(signals[_i], SIG_DFL), signals[_i]);
	ck_assert_str_eq(get(), "old");
	ck_assert_int_eq(count_files(), 1);
}

FORK_TEST(test_ignored_signal, 1)
{
	ck_assert_int_eq(write_and_get(SIGINT, SIG_IGN), -7);
	ck_assert_int_eq(count_files(), 1); /* the part: the program ended without a word */
	sc_output_discard(begin(path));
	ck_assert_int_eq(count_files(), 0);
}

/* What a killed program left goes; what another still writes stays. */
FORK_TEST(test_killed, 1)
{
	struct sc_output *out = begin(path);

	ck_assert_int_eq(write_and_get(SIGKILL, SIG_DFL), SIGKILL);
	ck_assert_int_eq(count_files(), 2);
	ck_assert_int_eq(sc_output_commit(begin(path), NULL, &err), 0);
	ck_assert_int_eq(count_files(), 2);
	ck_assert_int_eq(access(sc_output_part(out), F_OK), 0);
	ck_assert_int_eq(sc_output_commit(out, NULL, &err), 0);
	ck_assert_int_eq(count_files(), 1);
}
