/* The clock of each rank against a neighbour's whose own is known, from the first rank outwards,
 * always over the most collectives shared. Differences of end times in windows of at most 60 s: a
 * line by robust least squares (bisquare weights, Holland and Welsch 1977), so that a tenth of
 * outliers does no harm. Causality bounds the error:
 * within a window the true correction is a line that no start of one rank lies after the end of
 * another; the bounds are the extremes of all such lines. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/stats.h"
#include "base/units.h"
#include "trace/merge/merge.h"

enum { MIN_TELLING = 5 }; /* collectives: of fewer the ends differ by chance */
enum { MIN_FOR_SLOPE = 16, MIN_WINDOW = 8, SEARCH_STEPS = 120 };
#define MAX_DRIFT 500e-6 /* quartz is within 100 ppm of true, so that two are within 200 */
#define WINDOW_NS (60.0 * (double)SC_NS_PER_S)
#define SLOPE_SIGNIFICANCE 3.5 /* errors: chance gives one of 2000 level clocks such a slope */
#define NO_ROOM 1e6            /* weight of what a line lacks of keeping all limits */

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

static double clock_difference(const struct pair *p)
{
	return (double)(p->parent_end_ns - p->end_ns);
}

/* ---- the estimate ---- */

/* The middle of the differences above a slope, and how far half of them are from it. */
static double middle_of(const struct window *w, double drift, double *spread_ns)
{
	double *x = sc_xmalloc((w->n + 1) * sizeof(*x)), middle;

	for (size_t i = 0; i < w->n; i++)
		x[i] = clock_difference(&w->pairs[i]) -
		       drift * (double)(w->pairs[i].end_ns - w->from_ns);
	middle = sc_median_sorting(x, w->n);
	for (size_t i = 0; i < w->n; i++)
		x[i] = fabs(x[i] - middle);
	*spread_ns = sc_median_sorting(x, w->n);
	free(x);
	return middle;
}

/* A level line unless the slope is more than chance makes it. */
static void estimate_line(const struct window *w, struct line *out, double *spread_ns)
{
	gsl_multifit_robust_workspace *robust;
	gsl_matrix *x, *cov;
	gsl_vector *d, *c;
	double middle_t = 0, slope;

	*out = (struct line){.offset_ns = middle_of(w, 0, spread_ns)};
	if (w->n < MIN_FOR_SLOPE)
		return;
	robust = gsl_multifit_robust_alloc(gsl_multifit_robust_bisquare, w->n, 2);
	x = gsl_matrix_alloc(w->n, 2);
	cov = gsl_matrix_calloc(2, 2);
	d = gsl_vector_alloc(w->n);
	c = gsl_vector_calloc(2);
	for (size_t i = 0; i < w->n; i++)
		middle_t += (double)(w->pairs[i].end_ns - w->from_ns) / (double)w->n;
	for (size_t i = 0; i < w->n; i++) {
		const double t = (double)(w->pairs[i].end_ns - w->from_ns) - middle_t;

		gsl_matrix_set(x, i, 0, 1);
		gsl_matrix_set(x, i, 1, t / (double)SC_NS_PER_S);
		gsl_vector_set(d, i, clock_difference(&w->pairs[i]) - out->offset_ns);
	}
	gsl_multifit_robust(x, d, c, cov, robust);
	slope = gsl_vector_get(c, 1) / (double)SC_NS_PER_S;
	out->offset_ns += gsl_vector_get(c, 0);
	if (fabs(slope) <= MAX_DRIFT &&
	    fabs(gsl_vector_get(c, 1)) > SLOPE_SIGNIFICANCE * sqrt(gsl_matrix_get(cov, 1, 1))) {
		out->drift = slope;
		out->offset_ns -= slope * middle_t;
	}
	middle_of(w, out->drift, spread_ns);
	gsl_multifit_robust_free(robust);
	gsl_matrix_free(x);
	gsl_matrix_free(cov);
	gsl_vector_free(d);
	gsl_vector_free(c);
}

/* ---- bounds ---- */

/* A limit of the error of a line, by a pair: neither starts after the other's end. */
struct limit {
	double low_t, low, high_t, high;
};
struct limits {
	struct limit *at;
	size_t n;
};

static struct limits make_limits(const struct window *w, const struct line *line)
{
	struct limits limits = {sc_xmalloc((w->n + 1) * sizeof(*limits.at)), w->n};

	for (size_t i = 0; i < w->n; i++) {
		const struct pair *p = &w->pairs[i];
		const double start = (double)(p->start_ns - w->from_ns);
		const double end = (double)(p->end_ns - w->from_ns);

		limits.at[i] = (struct limit){
			.low_t = end,
			.low = (double)(p->parent_start_ns - p->end_ns) - line->offset_ns -
			       line->drift * end,
			.high_t = start,
			.high = (double)(p->parent_end_ns - p->start_ns) - line->offset_ns -
				line->drift * start,
		};
	}
	return limits;
}

/* The lowest and the highest value at a time of the lines of a slope that keep all limits; low >
 * high: none does. */
static void room_of_slope(const struct limits *limits, double slope, double t, double *low,
			  double *high)
{
	*low = -INFINITY;
	*high = INFINITY;
	for (size_t i = 0; i < limits->n; i++) {
		const struct limit *l = &limits->at[i];
		const double above = l->low - slope * (l->low_t - t);
		const double below = l->high - slope * (l->high_t - t);

		/* not by fmax and fmin, which are calls: this is where the time of a merge goes */
		*low = above > *low ? above : *low;
		*high = below < *high ? below : *high;
	}
}

/* Over all slopes the highest value at a time, or the lowest. A slope without room counts less, by
 * far: the value and the room are concave in the slope, and so is what is searched. */
static double extreme_at(const struct limits *limits, double t, bool highest)
{
	double from = -2 * MAX_DRIFT, to = 2 * MAX_DRIFT, low, high, value[2];

	for (int i = 0; i < SEARCH_STEPS; i++) {
		const double third = (to - from) / 3;

		for (int k = 0; k < 2; k++) {
			room_of_slope(limits, k ? to - third : from + third, t, &low, &high);
			value[k] = (highest ? high : -low) + NO_ROOM * fmin(0, high - low);
		}
		if (value[0] < value[1])
			from += third;
		else
			to -= third;
	}
	return highest ? value[0] : -value[0];
}

/* ---- ranks ---- */

SC_COMPARE(compare_pairs, struct pair, SC_ORDER(a->end_ns, b->end_ns));

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
	SC_SORT(pairs, n, compare_pairs);
	*n_out = n;
	return pairs;
}

static void add_piece(struct sc_merge *m, size_t child, const struct window *w, double *spread_ns)
{
	struct sc_merge_rank *c = &m->ranks.at[child];
	const struct sc_merge_rank *parent = &m->ranks.at[c->parent];
	const double length = (double)(w->to_ns - w->from_ns);
	double low = 0, high = 0, least, most, move;
	struct limits limits;
	struct line line;

	estimate_line(w, &line, spread_ns);
	/* Few collectives say whether a clock is wrong, and little of by how much. */
	if (c->basis == SC_MERGE_FEW) {
		const struct line own = {.offset_ns =
						 (double)sc_merge_correction(parent, w->from_ns)};

		limits = make_limits(w, &own);
		room_of_slope(&limits, 0, 0, &least, &most);
		free(limits.at);
		line = least > 0 || most < 0 ? line : own;
	}
	limits = make_limits(w, &line);
	/* Outside what is possible at its own slope: to the nearest that is. */
	room_of_slope(&limits, 0, 0, &least, &most);
	move = least > most ? (least + most) / 2 : fmin(fmax(0, least), most);
	for (size_t i = 0; i < parent->pieces.n; i++) {
		low = fmin(low, parent->pieces.at[i].low_ns);
		high = fmax(high, parent->pieces.at[i].high_ns);
	}
	SC_VEC_PUSH(&c->pieces, ((struct sc_merge_piece){
					.from_ns = w->from_ns,
					.to_ns = w->to_ns,
					.offset_ns = line.offset_ns + move,
					.drift = line.drift,
					.low_ns = low - move +
						  fmin(extreme_at(&limits, 0, false),
						       extreme_at(&limits, length, false)),
					.high_ns = high - move +
						   fmax(extreme_at(&limits, 0, true),
							extreme_at(&limits, length, true)),
					.n = w->n,
				}));
	free(limits.at);
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
	/* No line keeps the limits: what was matched differs, and says nothing of clocks. */
	for (size_t i = 0; i < rank->pieces.n; i++)
		if (rank->pieces.at[i].low_ns > rank->pieces.at[i].high_ns) {
			rank->pieces.n = 0;
			rank->basis = SC_MERGE_HOST_CLOCK;
		}
}

static void settle_clock(struct sc_merge *m, size_t child, size_t parent,
			 const uint32_t *parent_calls)
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

/* The settled rank that a rank shares most with; a host's own clock is best. */
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
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	size_t next = 0;

	memset(nearest, 0, (n + 1) * sizeof(*nearest));
	for (size_t r = 0; r < n; r++)
		merge->ranks.at[r].basis = SC_MERGE_HOST_CLOCK;
	if (n)
		merge->ranks.at[0].basis = SC_MERGE_REFERENCE;
	for (size_t done = 0; done < n; done++) {
		if (done) {
			index_calls(merge, nearest[next].parent, calls);
			settle_clock(merge, next, nearest[next].parent, calls);
		}
		nearest[next].settled = true;
		index_calls(merge, next, calls);
		look_at(merge, next, calls, nearest);
		/* The next one: most shared, then lowest; those on a settled host first. */
		next = n;
		for (size_t r = 0; r < n; r++)
			if (!nearest[r].settled &&
			    (next == n || nearest[r].same_host > nearest[next].same_host ||
			     (nearest[r].same_host == nearest[next].same_host &&
			      nearest[r].shared > nearest[next].shared)))
				next = r;
	}
	gsl_set_error_handler(handler);
	free(nearest);
	free(calls);
}
