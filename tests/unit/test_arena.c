/* Arenas, the allocation helpers and the growing array over them. */
#include <signal.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "runner.h"

static struct sc_arena arena;

static void set_up(void)
{
	sc_arena_init(&arena, 256);
}

static void tear_down(void)
{
	sc_arena_release(&arena);
}

FIXTURE(set_up, tear_down)

/* Small ones, ones larger than a block, and none at all: aligned, apart, kept. */
TEST(test_alloc)
{
	static const size_t sizes[] = {1, 15, 16, 17, 100, 0, 255, 256, 5000, 1, 70000, 3};
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };
	unsigned char *at[N];

	for (size_t i = 0; i < N; i++) {
		at[i] = sc_arena_alloc(&arena, sizes[i]);
		ck_assert_ptr_nonnull(at[i]);
		ck_assert_uint_eq((uintptr_t)at[i] % 16, 0);
		memset(at[i], (int)i + 1, sizes[i]);
	}
	for (size_t i = 0; i < N; i++) {
		for (size_t k = 0; k < sizes[i]; k++)
			ck_assert_uint_eq(at[i][k], i + 1);
	}
}

TEST(test_zeroed_struct)
{
	struct sc_arena zeroed = {0};
	struct sc_arena never_used = {0};

	sc_arena_release(&never_used);
	ck_assert_str_eq(sc_arena_strdup(&zeroed, "text"), "text");
	sc_arena_release(&zeroed);
	ck_assert_ptr_null(zeroed.head);
	sc_arena_release(&zeroed);
}

TEST(test_calloc)
{
	unsigned char *at;

	memset(sc_arena_alloc(&arena, 200), 0xFF, 200);
	sc_arena_rewind(&arena, (struct sc_arena_mark){0});
	at = sc_arena_calloc(&arena, 20, 10);
	for (size_t i = 0; i < 200; i++)
		ck_assert_uint_eq(at[i], 0);
	ck_assert_ptr_nonnull(sc_arena_calloc(&arena, 0, 8));
	ck_assert_ptr_nonnull(sc_arena_calloc(&arena, 8, 0));
}

TEST(test_texts)
{
	ck_assert_str_eq(sc_arena_strdup(&arena, ""), "");
	ck_assert_str_eq(sc_arena_strdup(&arena, "abc"), "abc");
	ck_assert_str_eq(sc_arena_strndup(&arena, "abcdef", 3), "abc");
	ck_assert_str_eq(sc_arena_strndup(&arena, "abc", 10), "abc");
	ck_assert_mem_eq(sc_arena_memdup(&arena, "a\0b", 3), "a\0b", 4);
	ck_assert_str_eq(sc_arena_printf(&arena, "%s-%d", "tp", 8), "tp-8");
	ck_assert_uint_eq(strlen(sc_arena_printf(&arena, "%1000d", 1)), 1000);
}

TEST(test_rewind)
{
	char *kept = sc_arena_strdup(&arena, "kept");
	struct sc_arena_mark mark = sc_arena_mark(&arena);
	void *first = sc_arena_alloc(&arena, 32);

	for (int i = 0; i < 100; i++)
		sc_arena_alloc(&arena, 1000);
	sc_arena_rewind(&arena, mark);
	ck_assert_str_eq(kept, "kept");
	ck_assert_ptr_eq(sc_arena_alloc(&arena, 32), first);
}

/* Once warm, a loop of mark and rewind uses the spare block again and again. */
TEST(test_rewind_keeps_a_spare)
{
	struct sc_arena_mark mark;
	void *first;

	sc_arena_alloc(&arena, 200);
	mark = sc_arena_mark(&arena);
	first = sc_arena_alloc(&arena, 400);
	sc_arena_rewind(&arena, mark);
	ck_assert_ptr_nonnull(arena.spare);
	for (int i = 0; i < 10; i++) {
		ck_assert_ptr_eq(sc_arena_alloc(&arena, 400), first);
		ck_assert_ptr_null(arena.spare);
		sc_arena_rewind(&arena, mark);
	}
}

TEST(test_rewind_to_empty)
{
	struct sc_arena_mark mark = sc_arena_mark(&arena);

	sc_arena_alloc(&arena, 100);
	sc_arena_alloc(&arena, 10000);
	sc_arena_rewind(&arena, mark);
	ck_assert_ptr_null(arena.head);
	ck_assert_ptr_nonnull(sc_arena_alloc(&arena, 10000));
}

TEST(test_blocks_grow_to_a_limit)
{
	for (int i = 0; i < 5000; i++)
		sc_arena_alloc(&arena, 1000);
	ck_assert_uint_eq(arena.block_bytes, 1 << 20);
}

TEST(test_xrealloc)
{
	int *at = sc_xrealloc(NULL, 4, sizeof(*at));

	for (int i = 0; i < 4; i++)
		at[i] = i;
	at = sc_xrealloc(at, 4000, sizeof(*at));
	ck_assert_int_eq(at[3], 3);
	at = sc_xrealloc(at, 0, sizeof(*at));
	ck_assert_ptr_nonnull(at);
	free(at);
	at = sc_xmalloc(0);
	ck_assert_ptr_nonnull(at);
	free(at);
}

/* Products and sums that overflow end the program with code 1, they do not wrap around. */
ABORT_TEST(test_overflow_ends_the_program, 3)
{
	switch (_i) {
	case 0:
		sc_xrealloc(NULL, SIZE_MAX / 2, 4);
		break;
	case 1:
		sc_arena_calloc(&arena, SIZE_MAX / 2, 4);
		break;
	case 2:
		sc_arena_alloc(&arena, SIZE_MAX - 8);
		break;
	default:
		break;
	}
}

TEST(test_vec)
{
	SC_VEC(int) vec = {0};

	for (int i = 0; i < 1000; i++) {
		SC_VEC_PUSH(&vec, i * i);
		ck_assert_uint_le(vec.n, vec.cap);
	}
	ck_assert_uint_eq(vec.n, 1000);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(vec.at[i], i * i);
	SC_VEC_RESERVE(&vec, 50000);
	ck_assert_uint_ge(vec.cap, 50000);
	ck_assert_uint_eq(vec.n, 1000);
	SC_VEC_RELEASE(&vec);
	ck_assert_ptr_null(vec.at);
	ck_assert_uint_eq(vec.cap, 0);
}
