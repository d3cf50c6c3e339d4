/* Files that are whole or as they were: written beside their name, and renamed at the end. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct sc_output;
/* Until commit, a file of that name is what it was; a full disk, an error or a signal that ends the
 * program (SIGINT, SIGTERM and their like) leaves it and removes the part. Parts of killed programs
 * are removed, too. What is no regular file (a pipe, /dev/stdout) is written straight; of a link,
 * what it points to is replaced. `keeps_rows`: of rows that are worth something one by one: into a
 * new file straight; where there is one, into PATH.part beside it, which an error or a signal
 * leaves, and the next run replaces. */
int sc_output_create(const char *path, bool keeps_rows, struct sc_output **out, struct sc_err *err);
/* One of these three is written to: the stream, the descriptor, or (by others) the part's name. */
FILE *sc_output_stream(struct sc_output *out);
int sc_output_fd(const struct sc_output *out);
const char *sc_output_part(const struct sc_output *out);
/* The file gets its name: that of create, or `path` in the same folder. Frees in any case. */
int sc_output_commit(struct sc_output *out, const char *path, struct sc_err *err);
void sc_output_discard(struct sc_output *out);
