/* A counter and the time of the last drawing. Whoever finds that a drawing is due draws; others
 * do not wait. */
#include "base/progress.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/units.h"

enum { FIRST_DRAW_MS = 500, REDRAW_MS = 250 };

struct sc_progress {
	FILE *out;
	const char *title;
	uint64_t total;
	_Atomic uint64_t done;
	_Atomic int64_t next_draw_ns;
	atomic_flag drawing;
	bool drawn; /* under `drawing` */
};

double sc_now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / (double)SC_NS_PER_S;
}

static int64_t now_ns(void)
{
	return (int64_t)(sc_now_s() * (double)SC_NS_PER_S);
}

struct sc_progress *sc_progress_create(FILE *out, const char *title, uint64_t total)
{
	struct sc_progress *progress = sc_xmalloc(sizeof(*progress));

	*progress = (struct sc_progress){
		.out = out, .title = title, .total = total, .drawing = ATOMIC_FLAG_INIT};
	atomic_init(&progress->next_draw_ns, now_ns() + FIRST_DRAW_MS * SC_NS_PER_MS);
	return progress;
}

static void draw_bar(struct sc_progress *progress)
{
	unsigned long long done = atomic_load(&progress->done), total = progress->total;

	if (total)
		fprintf(progress->out, "\r%s: %3.0f%% (%llu/%llu)", progress->title,
			100.0 * (double)done / (double)total, done, total);
	else
		fprintf(progress->out, "\r%s: %llu", progress->title, done);
	fflush(progress->out);
	progress->drawn = true;
}

void sc_progress_add(struct sc_progress *progress, uint64_t n_done)
{
	int64_t now;

	if (!progress)
		return;
	atomic_fetch_add(&progress->done, n_done);
	now = now_ns();
	if (now < atomic_load(&progress->next_draw_ns) ||
	    atomic_flag_test_and_set(&progress->drawing))
		return;
	if (now >= atomic_load(&progress->next_draw_ns)) {
		draw_bar(progress);
		atomic_store(&progress->next_draw_ns, now + REDRAW_MS * SC_NS_PER_MS);
	}
	atomic_flag_clear(&progress->drawing);
}

void sc_progress_destroy(struct sc_progress *progress)
{
	if (!progress)
		return;
	if (progress->drawn) {
		draw_bar(progress);
		fputc('\n', progress->out);
		fflush(progress->out);
	}
	free(progress);
}
