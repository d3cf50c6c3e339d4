/* A list of blocks, newest first; allocation bumps the newest. Under AddressSanitizer what is not
 * handed out is poisoned, with a gap after each piece, so that overruns inside a block are seen. */
#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SC_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SC_ASAN 1
#endif

#ifdef SC_ASAN
#include <sanitizer/asan_interface.h>
enum { GAP_BYTES = 16 };
#define HIDE(at, n) ASAN_POISON_MEMORY_REGION(at, n)
#define SHOW(at, n) ASAN_UNPOISON_MEMORY_REGION(at, n)
#else
enum { GAP_BYTES = 0 };
#define HIDE(at, n) ((void)(at), (void)(n))
#define SHOW(at, n) ((void)(at), (void)(n))
#endif

enum { ALIGN = 16, DEFAULT_BLOCK = 4096, MAX_BLOCK = 1 << 20 };

struct sc_arena_block {
	struct sc_arena_block *prev;
	size_t cap, used; /* bytes of data */
	alignas(ALIGN) unsigned char data[];
};

static void (*out_of_memory)(void);

void sc_on_out_of_memory(void (*end)(void))
{
	out_of_memory = end;
}

static _Noreturn void die_out_of_memory(void)
{
	if (out_of_memory)
		out_of_memory();
	abort();
}

void *sc_xmalloc(size_t n_bytes)
{
	void *at = malloc(n_bytes ? n_bytes : 1);

	if (!at)
		die_out_of_memory();
	return at;
}

void *sc_xcalloc(size_t n, size_t n_bytes)
{
	void *at = calloc(n ? n : 1, n_bytes ? n_bytes : 1);

	if (!at)
		die_out_of_memory();
	return at;
}

void *sc_xrealloc(void *old, size_t n, size_t n_bytes)
{
	void *at;

	if (n_bytes && n > PTRDIFF_MAX / n_bytes)
		die_out_of_memory();
	at = realloc(old, n > 0 && n_bytes > 0 ? n * n_bytes : 1);
	if (!at)
		die_out_of_memory();
	return at;
}

static void free_block(struct sc_arena_block *block)
{
	if (!block)
		return;
	SHOW(block->data, block->cap);
	free(block);
}

void sc_arena_release(struct sc_arena *arena)
{
	while (arena->head) {
		struct sc_arena_block *prev = arena->head->prev;

		free_block(arena->head);
		arena->head = prev;
	}
	free_block(arena->spare);
	arena->spare = NULL;
}

/* A new head with room for n_bytes: the spare if it is large enough. */
static void arena_grow(struct sc_arena *arena, size_t n_bytes)
{
	struct sc_arena_block *block = arena->spare;
	size_t cap;

	if (block && block->cap >= n_bytes) {
		arena->spare = NULL;
	} else {
		if (!arena->block_bytes)
			arena->block_bytes = DEFAULT_BLOCK;
		cap = n_bytes > arena->block_bytes ? n_bytes : arena->block_bytes;
		if (cap > PTRDIFF_MAX - sizeof(*block))
			die_out_of_memory();
		block = sc_xmalloc(sizeof(*block) + cap);
		block->cap = cap;
		HIDE(block->data, cap);
		if (arena->block_bytes < MAX_BLOCK)
			arena->block_bytes *= 2;
	}
	block->used = 0;
	block->prev = arena->head;
	arena->head = block;
}

void *sc_arena_alloc(struct sc_arena *arena, size_t n_bytes)
{
	size_t room;
	void *at;

	if (n_bytes > PTRDIFF_MAX - ALIGN - GAP_BYTES)
		die_out_of_memory();
	room = (n_bytes + GAP_BYTES + ALIGN - 1) / ALIGN * ALIGN;
	if (!arena->head || arena->head->cap - arena->head->used < room)
		arena_grow(arena, room);
	at = arena->head->data + arena->head->used;
	arena->head->used += room;
	SHOW(at, n_bytes);
	return at;
}

void *sc_arena_calloc(struct sc_arena *arena, size_t n, size_t n_bytes)
{
	if (n_bytes && n > PTRDIFF_MAX / n_bytes)
		die_out_of_memory();
	return memset(sc_arena_alloc(arena, n * n_bytes), 0, n * n_bytes);
}

char *sc_arena_memdup(struct sc_arena *arena, const char *bytes, size_t n)
{
	char *copy = sc_arena_alloc(arena, n + 1);

	memcpy(copy, bytes, n);
	copy[n] = '\0';
	return copy;
}

char *sc_arena_strndup(struct sc_arena *arena, const char *text, size_t n)
{
	return sc_arena_memdup(arena, text, strnlen(text, n));
}

char *sc_arena_printf(struct sc_arena *arena, const char *fmt, ...)
{
	va_list args, again;
	char *text;
	int n;

	assert(fmt);
	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	assert(n >= 0);
	text = sc_arena_alloc(arena, (size_t)n + 1);
	vsnprintf(text, (size_t)n + 1, fmt, again);
	va_end(again);
	return text;
}

struct sc_arena_mark sc_arena_mark(const struct sc_arena *arena)
{
	return (struct sc_arena_mark){
		.block = arena->head,
		.used_bytes = arena->head ? arena->head->used : 0,
	};
}

/* The largest of the blocks dropped stays as the spare. */
static void drop_head(struct sc_arena *arena)
{
	struct sc_arena_block *block = arena->head;

	arena->head = block->prev;
	HIDE(block->data, block->cap);
	if (!arena->spare || arena->spare->cap < block->cap) {
		free_block(arena->spare);
		arena->spare = block;
	} else {
		free_block(block);
	}
}

void sc_arena_rewind(struct sc_arena *arena, struct sc_arena_mark mark)
{
	while (arena->head != mark.block) {
		assert(arena->head); /* else the mark is of another arena or was rewound past */
		drop_head(arena);
	}
	if (arena->head) {
		assert(mark.used_bytes <= arena->head->used);
		arena->head->used = mark.used_bytes;
		HIDE(arena->head->data + mark.used_bytes, arena->head->cap - mark.used_bytes);
	}
}
