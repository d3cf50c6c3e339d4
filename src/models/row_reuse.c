/* Distinct rows and cache hits from a description of reuse, by two views: the popularity of rows as
 * classes (so many rows, each with such a share of the lookups), for caches that have seen many
 * batches: least recently used by Che's approximation (Che, Tung, Wang 2002), or the most popular
 * rows pinned; and the distinct rows of n lookups, from a law, a histogram or a miss-ratio curve,
 * which has dU/dn = m(U) (Xiang et al. 2013). */
#include "models/row_reuse.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memo.h"

/* The ranks of a Zipf law: each alone, then in classes that grow by a part of what lies below. */
#define RANK_GROWTH 0.3
enum { N_SINGLE_RANKS = 16, MAX_CLASSES = 512, N_BISECTIONS = 40 };
#define LONGEST_TIME 1e18 /* lookups */

struct row_class {
	double rows, share; /* share: of all lookups, each of its rows */
};
/* Classes are in the order of falling popularity. */
struct classes {
	struct row_class at[MAX_CLASSES];
	size_t n;
};

static void add_class(struct classes *c, double rows, double lookups_share)
{
	if (rows > 0 && c->n < MAX_CLASSES)
		c->at[c->n++] = (struct row_class){rows, lookups_share / rows};
}

/* ---- Zipf ---- */

/* The integral of x^-a from lo to hi. */
static double power_integral(double lo, double hi, double a)
{
	if (fabs(a - 1) < 1e-9)
		return log(hi / lo);
	return (pow(hi, 1 - a) - pow(lo, 1 - a)) / (1 - a);
}

static void zipf_classes(double a, double rows, struct classes *out)
{
	double sum = 0, lo = 1;

	out->n = 0;
	while (lo <= rows && out->n < MAX_CLASSES) {
		double n = lo <= N_SINGLE_RANKS ? 1 : fmax(1, floor(lo * RANK_GROWTH));
		double weight;

		n = fmin(n, rows - lo + 1);
		/* the midpoint rule for a rank is exact to second order in 1 / rank */
		weight = n > 1 ? power_integral(lo - 0.5, lo + n - 0.5, a) : pow(lo, -a);
		add_class(out, n, weight);
		sum += weight;
		lo += n;
	}
	for (size_t i = 0; i < out->n; i++)
		out->at[i].share /= sum;
}

/* ---- histograms ---- */

enum { MAX_BINS = 64 };
/* A sample of a mean table, or of one with so few rows that all were touched: classes by count. A
 * histogram is of counts in a finite sample, not of popularity: smaller samples follow by binomial
 * thinning; in larger ones new rows come at the rate that Good (1953) gives, rows seen once over
 * lookups, falling as a power law that keeps the share of rows seen once (Heaps). */
struct counts {
	double rows[MAX_BINS], count[MAX_BINS];
	size_t n;
	double n_lookups, n_unique, once;
};

/* The mean count of the rows of a bin: from both shares where those have digits enough, else where
 * a power law of the counts has it, near the geometric middle. */
static double bin_count(const struct sc_reuse *r, size_t bin)
{
	double upper = ldexp(1, (int)bin), lower = bin > 0 ? floor(upper / 2) + 1 : 1;
	double share = r->row_bins.at[bin];
	double mean = share > 0 ? r->n_lookups * r->lookup_bins.at[bin] / (r->n_unique * share) : 0;

	/* the last bin is open */
	if (bin + 1 == r->row_bins.n && mean > lower)
		return mean;
	if (share < 0.01 || r->lookup_bins.at[bin] <= 0)
		mean = mean >= lower && mean <= upper ? mean : sqrt(lower * upper);
	return fmin(fmax(mean, lower), upper);
}

static void read_counts(const struct sc_reuse *r, double rows, struct counts *out)
{
	double n_tables = r->n_tables > 0 ? r->n_tables : 1;
	double n_lookups = r->n_lookups / n_tables, n_unique = 0;

	*out = (struct counts){.n = r->row_bins.n};
	assert(out->n <= MAX_BINS);
	for (size_t i = 0; i < out->n; i++) {
		out->count[i] = bin_count(r, i);
		/* shares of lookups have more digits where counts are high */
		out->rows[i] = r->row_bins.at[i] >= 0.01
				       ? r->row_bins.at[i] * r->n_unique / n_tables
				       : r->lookup_bins.at[i] * n_lookups / out->count[i];
		n_unique += out->rows[i];
	}
	if (n_unique > rows) { /* a smaller sample of the same form */
		for (size_t i = 0; i < out->n; i++)
			out->rows[i] *= rows / n_unique;
		n_unique = rows;
	}
	out->n_unique = n_unique;
	for (size_t i = 0; i < out->n; i++)
		out->n_lookups += out->rows[i] * out->count[i];
	out->once = out->rows[0];
}

static double counts_unique(const struct counts *c, double lookups)
{
	double frac = lookups / c->n_lookups, unique = 0, log_left;

	if (frac >= 1)
		return c->n_unique * pow(frac, c->once / c->n_unique);
	log_left = log1p(-frac);
	for (size_t i = 0; i < c->n; i++)
		unique += c->rows[i] * -expm1(c->count[i] * log_left);
	return unique;
}

/* ---- miss-ratio curves ---- */

static double mrc_miss(const struct sc_reuse *r, double cached_frac)
{
	double x = 0, m = 1;

	for (size_t i = 0; i < r->cached_frac.n; i++) {
		double x1 = r->cached_frac.at[i], m1 = r->miss_frac.at[i];

		if (cached_frac < x1)
			return m + (m1 - m) * (cached_frac - x) / (x1 - x);
		x = x1;
		m = m1;
	}
	return m;
}

/* The n lookups take U through pieces on which m is linear: dn = dU / m. */
static double mrc_unique(const struct sc_reuse *r, double rows, double lookups)
{
	double x = 0, m = 1, left = lookups / rows;

	for (size_t i = 0; i < r->cached_frac.n; i++) {
		double dx = r->cached_frac.at[i] - x, m1 = r->miss_frac.at[i], slope, needed;

		if (dx <= 0) {
			m = m1;
			continue;
		}
		slope = (m - m1) / dx;
		needed = slope * dx > 1e-12 * m ? log(m / fmax(m1, 1e-300)) / slope : dx / m;
		if (left < needed)
			return rows *
			       (x + (slope * dx > 1e-12 * m ? m * -expm1(-left * slope) / slope
							    : left * m));
		left -= needed;
		x += dx;
		m = m1;
	}
	return rows * (x + left * m);
}

/* ---- all kinds ---- */

static double classes_unique(const struct classes *c, double lookups)
{
	double unique = 0;

	for (size_t i = 0; i < c->n; i++) {
		double share = fmin(c->at[i].share, 1);

		unique += c->at[i].rows *
			  (share < 1 ? -expm1(lookups * log1p(-share)) : fmin(1, lookups));
	}
	return unique;
}

/* A popularity is made once for any number of questions. */
struct popularity {
	const struct sc_reuse *reuse;
	double rows;
	struct classes classes;
	struct counts counts; /* of a histogram */
};

static void popularity_init(struct popularity *p, const struct sc_reuse *reuse, double rows)
{
	struct counts *c = &p->counts;

	p->reuse = reuse;
	p->rows = rows;
	p->classes.n = 0;
	if (reuse->kind == SC_REUSE_ZIPF) {
		zipf_classes(reuse->zipf, rows, &p->classes);
	} else if (reuse->kind == SC_REUSE_BINS) {
		read_counts(reuse, rows, c);
		for (size_t i = c->n; i-- > 1;)
			add_class(&p->classes, c->rows[i], c->rows[i] * c->count[i] / c->n_lookups);
		/* Rows seen once and rows never seen share what Good's estimate leaves them. */
		add_class(&p->classes, c->once + fmax(0, rows - c->n_unique),
			  c->once / c->n_lookups);
	} else {
		add_class(&p->classes, rows, 1);
	}
}

static double unique_of(const struct popularity *p, double lookups)
{
	/* no distribution touches more rows than the uniform one */
	double unique =
		p->rows > 1 ? p->rows * -expm1(lookups * log1p(-1 / p->rows)) : fmin(1, lookups);

	if (!(lookups > 0) || !(p->rows > 0))
		return 0;
	if (p->reuse->kind == SC_REUSE_ZIPF)
		unique = fmin(unique, classes_unique(&p->classes, lookups));
	else if (p->reuse->kind == SC_REUSE_BINS)
		unique = fmin(unique, counts_unique(&p->counts, lookups));
	else if (p->reuse->kind == SC_REUSE_MRC)
		unique = fmin(unique, mrc_unique(p->reuse, p->rows, lookups));
	return fmin(unique, lookups);
}

double sc_reuse_unique(const struct sc_reuse *reuse, double rows, double lookups)
{
	struct popularity p;

	popularity_init(&p, reuse, rows);
	return unique_of(&p, lookups);
}

enum { N_SEARCH = 24 };

/* The part of `lookups` that do not find their row in a cache of `cached_rows` (at least 1, fewer
 * than are touched) that starts empty: the first of each row; and once it is full, as many as bring
 * rows that are new in the lookups it holds (Xiang et al. 2013: m = dU/dn). */
static double misses_of(const struct sc_reuse *reuse, double rows, double lookups,
			double cached_rows)
{
	struct popularity p;
	double filled, rate;

	popularity_init(&p, reuse, rows);
	/* The search is for the lookups, at least `unique` and at most `most`, in which so many
	 * distinct rows are touched. */
	double lo = cached_rows, hi = lookups;

	for (int i = 0; i < N_SEARCH && hi > lo * 1.001; i++) {
		double middle = sqrt(lo * hi);

		*(unique_of(&p, middle) < cached_rows ? &lo : &hi) = middle;
	}
	filled = hi;
	rate = (unique_of(&p, filled * 1.05) - unique_of(&p, filled / 1.05)) /
	       (filled * (1.05 - 1 / 1.05));
	return cached_rows + (lookups - filled) * rate;
}

/* Rows count as alike, of which so many are touched: unique = rows * (1 - exp(-lookups / rows)).
 * The misses are then those of misses_of. */
double sc_reuse_told_misses(double unique, double lookups, double cached_rows)
{
	double lo = 1e-12, hi = lookups / unique, rows, filled; /* lookups of each row */

	for (int i = 0; i < N_BISECTIONS; i++) {
		double middle = 0.5 * (lo + hi);

		*(-expm1(-middle) / middle > unique / lookups ? &lo : &hi) = middle;
	}
	rows = lookups / hi;
	filled = fmin(-rows * log1p(-cached_rows / rows), lookups);
	return fmin(fmax(cached_rows + (lookups - filled) * (1 - cached_rows / rows), unique),
		    lookups);
}

/* The expected rows that were looked up in the last `time` lookups. */
static double rows_present(const struct classes *c, double time)
{
	double present = 0;

	for (size_t i = 0; i < c->n; i++)
		present += c->at[i].rows * -expm1(-c->at[i].share * time);
	return present;
}

/* Che: every row stays for the same time since its last lookup: that for which the rows present
 * fill the cache. */
static double che_hit(const struct classes *c, double cached_rows)
{
	double lo = 0, hi = cached_rows, hit = 0;

	while (hi < LONGEST_TIME && rows_present(c, hi) < cached_rows) {
		lo = hi;
		hi *= 4;
	}
	for (int i = 0; i < N_BISECTIONS; i++) {
		double time = 0.5 * (lo + hi);

		*(rows_present(c, time) < cached_rows ? &lo : &hi) = time;
	}
	for (size_t i = 0; i < c->n; i++)
		hit += c->at[i].rows * c->at[i].share * -expm1(-c->at[i].share * hi);
	return fmin(hit, 1);
}

double sc_reuse_hit(const struct sc_reuse *reuse, double rows, double cached_rows, bool pinned)
{
	struct popularity p;
	double hit = 0, left = cached_rows;

	if (!(rows > 0) || !(cached_rows > 0))
		return 0;
	if (cached_rows >= rows)
		return 1;
	if (reuse->kind == SC_REUSE_MRC)
		return 1 - mrc_miss(reuse, cached_rows / rows);
	popularity_init(&p, reuse, rows);
	if (!pinned)
		return che_hit(&p.classes, cached_rows);
	for (size_t i = 0; i < p.classes.n && left > 0; i++) {
		double n = fmin(left, p.classes.at[i].rows);

		hit += n * p.classes.at[i].share;
		left -= n;
	}
	return fmin(hit, 1);
}

/* A curve says how fast misses fall with the rows that a cache holds: the next one's frequency. */
static double mrc_rows_above(const struct sc_reuse *r, double rows, double share)
{
	double x = 0, m = 1;

	for (size_t i = 0; i < r->cached_frac.n; i++) {
		double dx = r->cached_frac.at[i] - x;

		if (dx > 0 && (m - r->miss_frac.at[i]) / (dx * rows) < share)
			break;
		x = r->cached_frac.at[i];
		m = r->miss_frac.at[i];
	}
	return floor(x * rows);
}

double sc_reuse_rows_above(const struct sc_reuse *reuse, double rows, double share)
{
	struct popularity p;
	double above = 0;

	if (!(rows >= 1) || !(share <= 1))
		return 0;
	if (!(share > 0))
		return rows;
	if (reuse->kind == SC_REUSE_MRC)
		return mrc_rows_above(reuse, rows, share);
	popularity_init(&p, reuse, rows);
	if (reuse->kind == SC_REUSE_ZIPF) /* frequencies go as a power of the rank */
		return fmin(rows, floor(pow(p.classes.at[0].share / share, 1 / reuse->zipf)));
	for (size_t i = 0; i < p.classes.n && p.classes.at[i].share >= share; i++)
		above += p.classes.at[i].rows;
	return fmin(rows, floor(above));
}

/* The distinct rows of so many lookups that are among the most frequent ones. */
static double top_unique(const struct sc_reuse *reuse, const struct sc_row_question *q)
{
	struct popularity p;
	struct classes top = {.n = 0};
	double left = fmin(q->cached_rows, q->rows);

	if (!(left > 0) || !(q->lookups > 0))
		return 0;
	popularity_init(&p, reuse, q->rows);
	if (reuse->kind == SC_REUSE_MRC)
		add_class(&top, left, sc_reuse_hit(reuse, q->rows, left, true));
	for (size_t i = 0; i < p.classes.n && left > 0 && reuse->kind != SC_REUSE_MRC; i++) {
		double n = fmin(left, p.classes.at[i].rows);

		add_class(&top, n, n * p.classes.at[i].share);
		left -= n;
	}
	return fmin(classes_unique(&top, q->lookups), unique_of(&p, q->lookups));
}

/* The growth of the share with one row more. */
static double top_next(const struct sc_reuse *reuse, const struct sc_row_question *q)
{
	double next = fmin(floor(q->cached_rows) + 1, q->rows);

	return fmax(0, sc_reuse_hit(reuse, q->rows, next, true) -
			       sc_reuse_hit(reuse, q->rows, q->cached_rows, true));
}

double sc_reuse_hot_frac(const struct sc_reuse *reuse, double rows)
{
	if (reuse->hot_frac > 0)
		return fmax(reuse->hot_frac, rows > 0 ? 1 / rows : 0);
	return sc_reuse_hit(reuse, rows, 1, true);
}

/* Descriptions of reuse have numbers of their own, by content; answers are remembered by these. */

enum { N_ANSWERS = 1 << 17, N_REUSES = 1 << 14 }; /* slots */
enum { N_NUMBERS = 6, N_LISTS = 4 };              /* of a reuse */

struct sc_row_memo {
	struct sc_memo *answers, *reuses;
	double n_reuses;     /* that ever were: no number is given again */
	SC_VEC(double) last; /* what the last reuse says, as its key; tables often have the same */
	double last_number;
};

struct sc_row_memo *sc_row_memo_create(void)
{
	return sc_xcalloc(1, sizeof(struct sc_row_memo));
}

void sc_row_memo_destroy(struct sc_row_memo *memo)
{
	if (!memo)
		return;
	sc_memo_destroy(memo->answers);
	sc_memo_destroy(memo->reuses);
	SC_VEC_RELEASE(&memo->last);
	free(memo);
}

/* The reuse says what the last one did. */
static bool is_last(const struct sc_row_memo *memo, const double *numbers,
		    const struct sc_doubles *const *lists)
{
	const double *at = memo->last.at;

	if (!memo->last.n || memcmp(at, numbers, N_NUMBERS * sizeof(*at)) != 0)
		return false;
	at += N_NUMBERS;
	for (int i = 0; i < N_LISTS; at += 1 + lists[i++]->n) {
		const double n = (double)lists[i]->n;

		if (memcmp(at, &n, sizeof(n)) != 0 ||
		    (n > 0 && memcmp(at + 1, lists[i]->at, lists[i]->n * sizeof(*at)) != 0))
			return false;
	}
	return true;
}

double sc_row_reuse_number(struct sc_row_memo *memo, const struct sc_reuse *r)
{
	const double numbers[N_NUMBERS] = {r->kind,     r->zipf,     r->n_lookups,
					   r->n_unique, r->n_tables, r->hot_frac};
	const struct sc_doubles *const lists[N_LISTS] = {&r->row_bins, &r->lookup_bins,
							 &r->cached_frac, &r->miss_frac};
	struct sc_memo_key *key;
	const double *known;

	if (!memo->answers) {
		memo->answers = sc_memo_create(N_ANSWERS);
		memo->reuses = sc_memo_create(N_REUSES);
	}
	if (is_last(memo, numbers, lists))
		return memo->last_number;
	key = sc_memo_begin(memo->reuses);
	sc_memo_put_all(key, numbers, N_NUMBERS);
	for (int i = 0; i < N_LISTS; i++) {
		sc_memo_put(key, (double)lists[i]->n);
		sc_memo_put_all(key, lists[i]->at, lists[i]->n);
	}
	known = sc_memo_find(memo->reuses);
	memo->last_number = known ? *known : (*sc_memo_add(memo->reuses, 1) = memo->n_reuses++);
	memo->last.n = 0;
	for (size_t i = 0; i < key->numbers.n; i++)
		SC_VEC_PUSH(&memo->last, key->numbers.at[i]);
	return memo->last_number;
}

static double answer(const struct sc_reuse *reuse, const struct sc_row_question *q)
{
	switch (q->fact) {
	case SC_ROWS_UNIQUE:
		return sc_reuse_unique(reuse, q->rows, q->lookups);
	case SC_ROWS_MISSES:
		return misses_of(reuse, q->rows, q->lookups, q->cached_rows);
	case SC_ROWS_HIT:
		return sc_reuse_hit(reuse, q->rows, q->cached_rows, false);
	case SC_ROWS_TOP_SHARE:
		return sc_reuse_hit(reuse, q->rows, q->cached_rows, true);
	case SC_ROWS_TOP_UNIQUE:
		return top_unique(reuse, q);
	case SC_ROWS_TOP_NEXT:
		return top_next(reuse, q);
	case SC_ROWS_HOT_FRAC:
	case SC_N_ROW_FACTS:
		break;
	}
	return sc_reuse_hot_frac(reuse, q->rows);
}

double sc_row_fact(struct sc_row_memo *memo, const struct sc_reuse *reuse,
		   const struct sc_row_question *q)
{
	struct sc_memo_key *key;
	const double *known;
	double number;

	if (!memo)
		return answer(reuse, q);
	number = sc_row_reuse_number(memo, reuse);
	key = sc_memo_begin(memo->answers);
	sc_memo_put(key, number);
	sc_memo_put(key, q->fact);
	sc_memo_put(key, q->rows);
	sc_memo_put(key, q->lookups);
	sc_memo_put(key, q->cached_rows);
	known = sc_memo_find(memo->answers);
	return known ? *known : (*sc_memo_add(memo->answers, 1) = answer(reuse, q));
}

double sc_reuse_row_skew(const struct sc_reuse *reuse, double rows, double n_slices)
{
	double hot = sc_reuse_hot_frac(reuse, rows), others;

	if (!(n_slices > 1) || !(rows > 1))
		return n_slices > 1 ? n_slices : 1;
	others = fmax(0, rows / n_slices - 1) / (rows - 1);
	return fmax(1, n_slices * (hot + (1 - hot) * others));
}
