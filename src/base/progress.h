/* How far a long task is, on one line of a terminal, redrawn at most four times a second.
 * All functions take NULL and then do nothing: the caller makes one only if progress is wanted. */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct sc_progress;

/* "title: 37% (370/1000)", or "title: 370" if total is 0. Nothing is drawn for the first half
 * second. `title` must outlive it. */
struct sc_progress *sc_progress_create(FILE *out, const char *title, uint64_t total);
void sc_progress_add(struct sc_progress *progress, uint64_t n_done); /* from any thread */
/* Draws the last state and ends the line, if anything was drawn. */
void sc_progress_destroy(struct sc_progress *progress);

/* Seconds of a clock that only goes on. */
double sc_now_s(void);
