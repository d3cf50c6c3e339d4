/* An arena for each test. */
#pragma once

#include "base/arena.h"
#include "runner.h"

static struct sc_arena arena;

static inline void arena_begin(void)
{
	sc_arena_init(&arena, 1 << 16);
}

static inline void arena_end(void)
{
	sc_arena_release(&arena);
}
