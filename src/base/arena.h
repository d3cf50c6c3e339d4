/* Memory with one lifetime: allocate forward, rewind to a mark, release all at once.
 * Never returns NULL: out of memory ends the program (sc_xmalloc is the one place). */
#pragma once

#include <stddef.h>
#include <string.h>

struct sc_arena_block;
struct sc_arena {
	struct sc_arena_block *head;  /* newest block */
	struct sc_arena_block *spare; /* kept by rewind, or NULL */
	size_t block_bytes;           /* size of the next ordinary block; doubles up to 1 MiB */
};
struct sc_arena_mark {
	struct sc_arena_block *block;
	size_t used_bytes;
};

static inline void sc_arena_init(struct sc_arena *arena, size_t block_bytes)
{
	arena->head = arena->spare = NULL;
	arena->block_bytes = block_bytes;
}
void sc_arena_release(struct sc_arena *arena);                /* also fine on a zeroed struct */
void *sc_arena_alloc(struct sc_arena *arena, size_t n_bytes); /* 16-byte aligned */
void *sc_arena_calloc(struct sc_arena *arena, size_t n, size_t n_bytes);    /* product checked */
char *sc_arena_strndup(struct sc_arena *arena, const char *text, size_t n); /* up to a NUL */
static inline char *sc_arena_strdup(struct sc_arena *arena, const char *text)
{
	return sc_arena_strndup(arena, text, strlen(text));
}
/* All n bytes, NULs too, and one more NUL behind. */
char *sc_arena_memdup(struct sc_arena *arena, const char *bytes, size_t n);
char *sc_arena_printf(struct sc_arena *arena, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Rewinding keeps one spare block, so that a loop of mark/rewind does not call malloc. */
struct sc_arena_mark sc_arena_mark(const struct sc_arena *arena);
void sc_arena_rewind(struct sc_arena *arena, struct sc_arena_mark mark);

void *sc_xmalloc(size_t n_bytes);
void *sc_xcalloc(size_t n, size_t n_bytes);             /* product checked; all 0 */
void *sc_xrealloc(void *old, size_t n, size_t n_bytes); /* product checked */

/* The function in place of abort() out of memory: set once, before any thread starts. */
void sc_on_out_of_memory(void (*end)(void));
