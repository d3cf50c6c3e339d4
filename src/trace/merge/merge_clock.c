/* The clock of each rank against a neighbour's whose own is known, from the first rank outwards, always
 * over the most collectives shared. Differences of end times in windows of at most 60 s: medians of
 * blocks, then the median of the slopes between blocks (Theil 1950, Sen 1968), so that a tenth of
 * outliers does no harm; then least squares over what is near that line. Causality bounds the error:
 * within a window the true correction is a line that no start of one rank lies after the end of another;
 * the bounds are the extremes of all such lines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "trace/merge/merge.h"

enum { MIN_TELLING = 5 }; /* collectives: of fewer the ends differ by chance */
enum { MAX_BLOCKS = 20, MIN_BLOCK = 2, MIN_FOR_SLOPE = 16, MIN_WINDOW = 8, SEARCH_STEPS = 120 };
#define MAX_DRIFT 500e-6 /* quartz is within 100 ppm of true, so that two are within 200 */
#define WINDOW_NS (60.0 * (double)SC_NS_PER_S)
#define SLOPE_SIGNIFICANCE 3.5 /* errors: chance gives one of 2000 level clocks such a slope */
#define NEAR_SDS 3.0
#define ROUNDING_NS 1.0
#define NO_ROOM 1e6 /* weight of what a line lacks of keeping all limits */
#define MAD_TO_SD 1.4826

/* A collective that both ranks have: on the child's clock and on the common one. */
struct pair {
	int64_t start_ns, end_ns; /* child's */
	int64_t parent_start_ns, parent_end_ns;
};
struct line {
	double offset_ns, drift; /* at from_ns, and per ns after it */
};
struct window {
	const struct pair *pairs;
	size_t n;
	int64_t from_ns, to_ns;
};

static double at_line(const struct line *line, const struct window *w, int64_t ns)
{
	return line->offset_ns + line->drift * (double)(ns - w->from_ns);
}

static double difference(const struct pair *p)
{
	return (double)(p->parent_end_ns - p->end_ns);
}

/* ---- the estimate ---- */

/* Medians of time and difference above a slope of each block. Returns how many. */
static size_t block_medians(const struct window *w, double drift, double *t, double *d)
{
	size_t n_blocks = w->n / MIN_BLOCK < MAX_BLOCKS ? w->n / MIN_BLOCK : MAX_BLOCKS;
	double *x = sc_xmalloc((w->n + 1) * sizeof(*x));

	for (size_t b = 0; b < n_blocks; b++) {
		const size_t first = b * w->n / n_blocks, end = (b + 1) * w->n / n_blocks;

		for (size_t i = first; i < end; i++)
			x[i - first] = (double)(w->pairs[i].end_ns - w->from_ns);
		t[b] = sc_median_sorting(x, end - first);
		for (size_t i = first; i < end; i++)
			x[i - first] = difference(&w->pairs[i]) -
				       drift * (double)(w->pairs[i].end_ns - w->from_ns);
		d[b] = sc_median_sorting(x, end - first);
	}
	free(x);
	return n_blocks;
}

static double median_slope(const double *t, const double *d, size_t n)
{
	double slopes[MAX_BLOCKS * MAX_BLOCKS / 2];
	size_t n_slopes = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			if (t[j] > t[i])
				slopes[n_slopes++] = (d[j] - d[i]) / (t[j] - t[i]);
	return n_slopes ? sc_median_sorting(slopes, n_slopes) : 0;
}

/* The middle of the differences above a slope, and how far half of them are from it. */
static double middle_of(const struct window *w, double drift, double *spread_ns)
{
	double *x = sc_xmalloc((w->n + 1) * sizeof(*x)), middle;

	for (size_t i = 0; i < w->n; i++)
		x[i] = difference(&w->pairs[i]) - drift * (double)(w->pairs[i].end_ns - w->from_ns);
	middle = sc_median_sorting(x, w->n);
	for (size_t i = 0; i < w->n; i++)
		x[i] = fabs(x[i] - middle);
	*spread_ns = sc_median_sorting(x, w->n);
	free(x);
	return middle;
}

/* Moves the line, or a level one, to the least squares of what is near it. Returns the standard error of its slope, or NAN. */
static double refine(const struct window *w, double spread_ns, bool level, struct line *line)
{
	const double near_ns = NEAR_SDS * MAD_TO_SD * spread_ns + ROUNDING_NS;
	double n = 0, sum_t = 0, sum_d = 0, tt = 0, td = 0, dd = 0, var_t, cov, slope, residual;

	for (size_t i = 0; i < w->n; i++) {
		const double t = (double)(w->pairs[i].end_ns - w->from_ns);
		/* From the line: small numbers, whose squares lose nothing. */
		const double d = difference(&w->pairs[i]) - line->offset_ns - line->drift * t;

		if (fabs(d) > near_ns)
			continue;
		n++;
		sum_t += t;
		sum_d += d;
		tt += t * t;
		td += t * d;
		dd += d * d;
	}
	if (!(n >= MIN_FOR_SLOPE))
		return NAN;
	var_t = tt - sum_t * sum_t / n;
	cov = td - sum_t * sum_d / n;
	slope = level || !(var_t > 0) ? 0 : cov / var_t;
	line->offset_ns += (sum_d - slope * sum_t) / n;
	line->drift += slope;
	residual = dd - sum_d * sum_d / n - slope * cov;
	return var_t > 0 ? sqrt(fmax(0, residual) / (n - 2) / var_t) : (double)NAN;
}

/* The slope that the medians of blocks have, then least squares without outliers: a level line unless the
 * slope is more than chance makes it. */
static void estimate(const struct window *w, struct line *out, double *spread_ns)
{
	double t[MAX_BLOCKS], d[MAX_BLOCKS], slope = 0, error = NAN;

	*out = (struct line){.drift = 0};
	if (w->n >= MIN_FOR_SLOPE && w->to_ns > w->from_ns) {
		/* Once more above the first slope: within a block, the drift must not decide what
		 * the median is. */
		for (int pass = 0; pass < 2; pass++) {
			size_t n_blocks = block_medians(w, slope, t, d);

			slope += median_slope(t, d, n_blocks);
		}
		out->drift = slope;
		for (int pass = 0; pass < 2; pass++) {
			out->offset_ns = middle_of(w, out->drift, spread_ns);
			error = refine(w, *spread_ns, false, out);
		}
	}
	if (!(fabs(out->drift) <= MAX_DRIFT && fabs(out->drift) > SLOPE_SIGNIFICANCE * error)) {
		out->drift = 0;
		out->offset_ns = middle_of(w, 0, spread_ns);
		refine(w, *spread_ns, true, out);
	}
}

/* ---- bounds ---- */

/* Limits for the error of a line, at a time: none of the pairs' starts after the other's end. */
struct limit {
	double t, low, high;
};

/* Limits of lines, at a time. */
struct limits {
	const struct limit *at;
	size_t n;
	double t;
};

/* Of the lines of a slope that keep all limits the highest value at a time; less, by far, where none does. Both that
 * and the room between the limits are concave in the slope, and so is this. */
static double highest_of_slope(const struct limits *limits, double slope)
{
	double low = -INFINITY, high = INFINITY;

	for (size_t i = 0; i < limits->n; i++) {
		const struct limit *l = &limits->at[i];
		const double rise = slope * (l->t - limits->t);

		/* not by fmax and fmin, which are calls: this is where the time of a merge goes */
		if (l->low - rise > low)
			low = l->low - rise;
		if (l->high - rise < high)
			high = l->high - rise;
	}
	return high >= low ? high : high + NO_ROOM * (high - low);
}

/* Over all slopes the highest value at t (of -low and -high: the lowest). */
static double highest_at(const struct limit *limit, size_t n, double t)
{
	const struct limits limits = {limit, n, t};
	double from = -2 * MAX_DRIFT, to = 2 * MAX_DRIFT;

	for (int i = 0; i < SEARCH_STEPS; i++) {
		const double a = from + (to - from) / 3, b = to - (to - from) / 3;

		if (highest_of_slope(&limits, a) < highest_of_slope(&limits, b))
			from = a;
		else
			to = b;
	}
	return highest_of_slope(&limits, (from + to) / 2);
}

/* Of the error of `line`, anywhere in the window. */
static void bounds(const struct window *w, const struct line *line, double *low, double *high)
{
	struct limit *limit = sc_xmalloc((2 * w->n + 1) * sizeof(*limit));
	const double end = (double)(w->to_ns - w->from_ns);
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++) {
		const struct pair *p = &w->pairs[i];

		limit[n++] = (struct limit){
			.t = (double)(p->end_ns - w->from_ns),
			.low = (double)(p->parent_start_ns - p->end_ns) -
			       at_line(line, w, p->end_ns),
			.high = INFINITY,
		};
		limit[n++] = (struct limit){
			.t = (double)(p->start_ns - w->from_ns),
			.low = -INFINITY,
			.high = (double)(p->parent_end_ns - p->start_ns) -
				at_line(line, w, p->start_ns),
		};
	}
	*high = fmax(highest_at(limit, n, 0), highest_at(limit, n, end));
	for (size_t i = 0; i < n; i++) {
		const double before = limit[i].low;

		limit[i].low = -limit[i].high;
		limit[i].high = -before;
	}
	*low = -fmax(highest_at(limit, n, 0), highest_at(limit, n, end));
	free(limit);
}

/* An estimate outside what is possible at its own slope is moved to the nearest that is possible. */
static void move_inside(const struct window *w, struct line *line)
{
	double low = -INFINITY, high = INFINITY;

	for (size_t i = 0; i < w->n; i++) {
		const struct pair *p = &w->pairs[i];

		low = fmax(low,
			   (double)(p->parent_start_ns - p->end_ns) - at_line(line, w, p->end_ns));
		high = fmin(high, (double)(p->parent_end_ns - p->start_ns) -
					  at_line(line, w, p->start_ns));
	}
	if (low > high)
		line->offset_ns += (low + high) / 2;
	else if (low > 0)
		line->offset_ns += low;
	else if (high < 0)
		line->offset_ns += high;
}

/* ---- ranks ---- */

static int compare_pairs(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;

	return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* Calls of a rank by instance: by_instance[i] is the call + 1, or 0. */
static void index_calls(const struct sc_merge *m, size_t rank, uint32_t *by_instance)
{
	const struct sc_merge_rank *r = &m->ranks.at[rank];

	memset(by_instance, 0, (m->n_members.n + 1) * sizeof(*by_instance));
	for (size_t i = 0; i < r->calls.n; i++)
		if (r->calls.at[i].instance >= 0 && r->calls.at[i].barrier)
			by_instance[r->calls.at[i].instance] = (uint32_t)i + 1;
}

/* How many barriers a rank shares with the one indexed. */
static size_t n_shared(const struct sc_merge *m, size_t rank, const uint32_t *by_instance)
{
	const struct sc_merge_rank *r = &m->ranks.at[rank];
	size_t n = 0;

	for (size_t i = 0; i < r->calls.n; i++)
		n += r->calls.at[i].barrier && r->calls.at[i].instance >= 0 &&
		     by_instance[r->calls.at[i].instance];
	return n;
}

static struct pair *pairs_of(const struct sc_merge *m, size_t child, size_t parent,
			     const uint32_t *parent_calls, size_t *n_out)
{
	const struct sc_merge_rank *c = &m->ranks.at[child], *p = &m->ranks.at[parent];
	struct pair *pairs = sc_xmalloc((c->calls.n + 1) * sizeof(*pairs));
	size_t n = 0;

	for (size_t i = 0; i < c->calls.n; i++) {
		const struct sc_merge_call *own = &c->calls.at[i], *other;

		if (!own->barrier || own->instance < 0 || !parent_calls[own->instance])
			continue;
		other = &p->calls.at[parent_calls[own->instance] - 1];
		pairs[n++] = (struct pair){
			.start_ns = own->start_ns,
			.end_ns = own->end_ns,
			.parent_start_ns =
				other->start_ns + sc_merge_correction(p, other->start_ns),
			.parent_end_ns = other->end_ns + sc_merge_correction(p, other->end_ns),
		};
	}
	qsort(pairs, n, sizeof(*pairs), compare_pairs);
	*n_out = n;
	return pairs;
}

static void add_piece(struct sc_merge *m, size_t child, const struct window *w, double *spread_ns)
{
	struct sc_merge_rank *c = &m->ranks.at[child];
	const struct sc_merge_rank *parent = &m->ranks.at[c->parent];
	struct sc_merge_piece piece = {.from_ns = w->from_ns, .to_ns = w->to_ns, .n = w->n};
	double low = 0, high = 0;
	struct line line;

	estimate(w, &line, spread_ns);
	if (c->basis == SC_MERGE_FEW)
		line = (struct line){.offset_ns = (double)sc_merge_correction(parent, w->from_ns)};
	move_inside(w, &line);
	bounds(w, &line, &piece.low_ns, &piece.high_ns);
	for (size_t i = 0; i < parent->pieces.n; i++) {
		low = fmin(low, parent->pieces.at[i].low_ns);
		high = fmax(high, parent->pieces.at[i].high_ns);
	}
	piece.low_ns += low;
	piece.high_ns += high;
	piece.offset_ns = line.offset_ns;
	piece.drift = line.drift;
	SC_VEC_PUSH(&c->pieces, piece);
}

/* Windows end after 60 s, but not before they have enough pairs. */
static void add_pieces(struct sc_merge *m, size_t child, const struct pair *pairs, size_t n)
{
	struct sc_merge_rank *rank = &m->ranks.at[child];
	double spread_ns = NAN, widest = 0;

	for (size_t i = 0, end; i < n; i = end) {
		struct window w = {.pairs = &pairs[i], .from_ns = pairs[i].start_ns};

		for (end = i; end < n && ((double)(pairs[end].end_ns - w.from_ns) <= WINDOW_NS ||
					  end - i < MIN_WINDOW);
		     end++)
			;
		if (n - end < MIN_WINDOW)
			end = n;
		w.n = end - i;
		w.to_ns = pairs[end - 1].end_ns;
		add_piece(m, child, &w, &spread_ns);
		widest = fmax(widest, spread_ns);
	}
	rank->spread_ns = n ? widest : (double)NAN;
	/* No line keeps the limits: what was matched is not the same, and says nothing of the clock. */
	for (size_t i = 0; i < rank->pieces.n; i++)
		if (rank->pieces.at[i].low_ns > rank->pieces.at[i].high_ns) {
			rank->pieces.n = 0;
			rank->basis = SC_MERGE_HOST_CLOCK;
		}
}

static void settle(struct sc_merge *m, size_t child, size_t parent, const uint32_t *parent_calls)
{
	struct sc_merge_rank *c = &m->ranks.at[child], *p = &m->ranks.at[parent];
	size_t n;
	struct pair *pairs = pairs_of(m, child, parent, parent_calls, &n);

	c->parent = parent;
	c->pieces.n = 0;
	if (c->host && c->host == p->host) {
		const struct window w = {.pairs = pairs, .n = n};

		c->basis = SC_MERGE_SAME_HOST;
		for (size_t i = 0; i < p->pieces.n; i++)
			SC_VEC_PUSH(&c->pieces, p->pieces.at[i]);
		if (n)
			middle_of(&w, 0, &c->spread_ns);
	} else if (n) {
		c->basis = n < MIN_TELLING && !(c->host && p->host) ? SC_MERGE_FEW
								    : SC_MERGE_COLLECTIVES;
		add_pieces(m, child, pairs, n);
	}
	free(pairs);
}

/* Which of those settled a rank shares most with; a host's own clock is best. */
struct nearest {
	size_t parent, shared;
	bool settled, same_host;
};

static void look_at(const struct sc_merge *m, size_t settled, const uint32_t *calls,
		    struct nearest *nearest)
{
	for (size_t r = 0; r < m->ranks.n; r++) {
		const bool same =
			m->ranks.at[r].host && m->ranks.at[r].host == m->ranks.at[settled].host;
		const size_t shared = nearest[r].settled ? 0 : n_shared(m, r, calls);

		if (nearest[r].settled || (nearest[r].same_host && !same))
			continue;
		if ((same && !nearest[r].same_host) || shared > nearest[r].shared) {
			nearest[r].parent = settled;
			nearest[r].shared = shared;
			nearest[r].same_host = same;
		}
	}
}

void sc_merge_clocks(struct sc_merge *merge)
{
	const size_t n = merge->ranks.n;
	struct nearest *nearest = sc_xmalloc((n + 1) * sizeof(*nearest));
	uint32_t *calls = sc_xmalloc((merge->n_members.n + 1) * sizeof(*calls));
	size_t next = 0;

	memset(nearest, 0, (n + 1) * sizeof(*nearest));
	for (size_t r = 0; r < n; r++)
		merge->ranks.at[r].basis = SC_MERGE_HOST_CLOCK;
	if (n)
		merge->ranks.at[0].basis = SC_MERGE_REFERENCE;
	for (size_t done = 0; done < n; done++) {
		if (done) {
			index_calls(merge, nearest[next].parent, calls);
			settle(merge, next, nearest[next].parent, calls);
		}
		nearest[next].settled = true;
		index_calls(merge, next, calls);
		look_at(merge, next, calls, nearest);
		/* The next one: most shared, the lowest among equals; those on a settled host first. */
		next = n;
		for (size_t r = 0; r < n; r++)
			if (!nearest[r].settled &&
			    (next == n || nearest[r].same_host > nearest[next].same_host ||
			     (nearest[r].same_host == nearest[next].same_host &&
			      nearest[r].shared > nearest[next].shared)))
				next = r;
		if (next == n)
			break;
		/* Shares nothing with anyone: its clock as it is. */
		if (!nearest[next].shared && !nearest[next].same_host) {
			merge->ranks.at[next].basis = SC_MERGE_HOST_CLOCK;
			nearest[next].parent = 0;
		}
	}
	free(nearest);
	free(calls);
}
