/* The simple commands of a shell script, as words with variables filled in: what shell_args.h needs of one. Not a
 * shell: nothing is run, and conditions are not judged. */
#ifndef SC_CORE_SHELL_WORDS_H
#define SC_CORE_SHELL_WORDS_H

#include "base/file.h"
#include "base/vec.h"

struct sc_shell_word {
	const char *text;
	unsigned line, column;
};
typedef SC_VEC(struct sc_shell_word) sc_shell_words;
/* Called with each command's words, assignments before them taken off; not 0 ends the reading. */
typedef int (*sc_shell_command)(void *ctx, const sc_shell_words *words, struct sc_err *err);
struct sc_shell_sink {
	sc_shell_command command;
	void *ctx;
	struct sc_arena *arena; /* of texts */
};
int sc_shell_read(const struct sc_source *text, const struct sc_shell_sink *sink,
		  struct sc_err *err);

#endif
