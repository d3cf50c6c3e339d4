/* Reuse of embedding rows: the keys, profile files, and whether what is given fits together. */
#include "core/embedding/reuse.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "core/profile/profile_priv.h"

#define MAX_COUNT 1e18
#define MIN_SKEW 1e-3
#define MAX_SKEW 10.0
enum { MAX_BINS = 64, MAX_POINTS = 4096 };
/* Published shares are rounded to three digits. */
#define SUM_TOLERANCE 0.02

static const struct sc_name KINDS[] = {
	{"default", SC_REUSE_DEFAULT}, {"uniform", SC_REUSE_UNIFORM}, {"zipf", SC_REUSE_ZIPF},
	{"bins", SC_REUSE_BINS},       {"mrc", SC_REUSE_MRC},         {0},
};
#define DOUBLE_FROM(member, lo, hi, text) SC_FIELD_IN(DOUBLE, sc_reuse, member, lo, hi, text)
#define DOUBLE(member, hi, text) DOUBLE_FROM(member, 0, hi, text)
#define SHARES(member, text) SC_FIELD_IN(DOUBLES, sc_reuse, member, 0, 1, text)
const struct sc_field sc_reuse_fields[] = {
	SC_PROFILE_KEYS, /* of a file of its own */
	SC_FIELD_OF(ENUM, sc_reuse, kind, KINDS,
		    "of the description; found from what is given, but for uniform"),
	DOUBLE_FROM(zipf, MIN_SKEW, MAX_SKEW,
		    "exponent of popularity by rank; where all rows are alike, kind: uniform"),
	SHARES(row_bins, "touched rows with 1, 2, 3-4, 5-8 ... lookups, shares"),
	SHARES(lookup_bins, "lookups that those rows get, shares"),
	DOUBLE(n_lookups, MAX_COUNT, "lookups that the bins are of"),
	DOUBLE(n_unique, MAX_COUNT, "distinct rows among them"),
	DOUBLE(n_tables, MAX_COUNT, "tables that those are sums over; default 1"),
	DOUBLE(hot_frac, 1, "share of lookups of the most frequent row"),
	SHARES(cached_frac, "share of the rows in an LRU cache, rising"),
	SHARES(miss_frac, "share of lookups that miss it"),
	SC_FIELD(STR, sc_reuse, file, "of configs/reuse, or an index sample (.txt, .npy, .bin)"),
	{0},
};
static const struct sc_profile_kind profile_kind = {
	.folder = "reuse", .noun = "reuse profile", .fields = sc_reuse_fields};

/* ---- checks ---- */

static int check_sum(const char *key, const struct sc_doubles *shares, struct sc_err *err)
{
	double sum = 0;

	for (size_t i = 0; i < shares->n; i++)
		sum += shares->at[i];
	if (fabs(sum - 1) <= SUM_TOLERANCE)
		return 0;
	return sc_err_set(err, SC_EVALUE, "reuse: %s: expected shares that sum to 1, got %g", key,
			  sum);
}

static int check_bins(const struct sc_reuse *r, struct sc_err *err)
{
	double n_tables = r->n_tables > 0 ? r->n_tables : 1;
	int rc;

	if (r->row_bins.n != r->lookup_bins.n || r->row_bins.n > MAX_BINS)
		return sc_err_set(err, SC_ECONFLICT,
				  "reuse: row_bins and lookup_bins: expected 1 to %d of each and "
				  "as many, got %zu and %zu",
				  MAX_BINS, r->row_bins.n, r->lookup_bins.n);
	if (!(r->n_unique > 0) || !(r->n_lookups >= r->n_unique) || !(r->n_unique >= n_tables))
		return sc_err_set(err, SC_EVALUE,
				  "reuse: bins need n_lookups >= n_unique >= n_tables, got %g, %g "
				  "and %g",
				  r->n_lookups, r->n_unique, n_tables);
	rc = check_sum("row_bins", &r->row_bins, err);
	return rc ? rc : check_sum("lookup_bins", &r->lookup_bins, err);
}

static int check_mrc(const struct sc_reuse *r, struct sc_err *err)
{
	const struct sc_doubles *cached = &r->cached_frac, *miss = &r->miss_frac;

	if (cached->n != miss->n || cached->n == 0 || cached->n > MAX_POINTS)
		return sc_err_set(err, SC_ECONFLICT,
				  "reuse: cached_frac and miss_frac: expected 1 to %d of each and "
				  "as many, got %zu and %zu",
				  MAX_POINTS, cached->n, miss->n);
	for (size_t i = 0; i < cached->n; i++) {
		bool rises = i == 0 || cached->at[i] > cached->at[i - 1];
		bool falls = i == 0 || miss->at[i] <= miss->at[i - 1];

		if (!rises || !falls)
			return sc_err_set(err, SC_EVALUE,
					  "reuse: point %zu: cached_frac must rise and miss_frac "
					  "not rise, got %g and %g",
					  i + 1, cached->at[i], miss->at[i]);
	}
	return 0;
}

static int find_kind(struct sc_reuse *r, struct sc_err *err)
{
	bool given[] = {
		[SC_REUSE_ZIPF] = r->zipf > 0,
		[SC_REUSE_BINS] = r->row_bins.n > 0 || r->lookup_bins.n > 0,
		[SC_REUSE_MRC] = r->cached_frac.n > 0 || r->miss_frac.n > 0,
	};
	int n = 0;

	for (int kind = SC_REUSE_ZIPF; kind <= SC_REUSE_MRC; kind++) {
		if (!given[kind])
			continue;
		if (n++ > 0 || (r->kind != SC_REUSE_DEFAULT && (int)r->kind != kind))
			return sc_err_set(err, SC_ECONFLICT,
					  "reuse: more than one description; give one of uniform, "
					  "zipf, bins, cached_frac with miss_frac, file");
		r->kind = (enum sc_reuse_kind)kind;
	}
	if (n == 0 && r->kind >= SC_REUSE_ZIPF)
		return sc_err_set(err, SC_EVALUE, "reuse: kind %s without its numbers",
				  sc_enum_name(KINDS, (int)r->kind));
	return 0;
}

static int check_kind(struct sc_reuse *r, struct sc_err *err)
{
	int rc = find_kind(r, err);

	if (rc == 0 && r->kind == SC_REUSE_BINS)
		rc = check_bins(r, err);
	if (rc == 0 && r->kind == SC_REUSE_MRC)
		rc = check_mrc(r, err);
	return rc;
}

/* ---- files ---- */

int sc_reuse_load(const char *id, struct sc_arena *arena, struct sc_reuse *out, struct sc_err *err)
{
	struct sc_reuse reuse = {.kind = SC_REUSE_DEFAULT};
	struct sc_err own = {.code = SC_OK};
	int rc = sc_profile_load(&profile_kind, id, &reuse, arena, err);

	if (rc)
		return rc;
	rc = reuse.file ? sc_err_set(&own, SC_EVALUE, "a profile cannot name a file")
			: check_kind(&reuse, &own);
	if (rc == 0 && reuse.kind == SC_REUSE_DEFAULT)
		rc = sc_err_set(&own, SC_EVALUE, "says nothing about reuse");
	if (rc)
		return sc_err_set(err, own.code, "reuse/%s.yaml: %s", id, own.text);
	*out = reuse;
	return 0;
}

static bool is_sample(const char *file)
{
	return strchr(file, '/') || sc_ends_with(file, ".npy") || sc_ends_with(file, ".bin") ||
	       sc_ends_with(file, ".txt");
}

int sc_reuse_resolve(struct sc_reuse *reuse, const struct sc_reuse *fallback,
		     struct sc_arena *arena, struct sc_err *err)
{
	struct sc_reuse r = *reuse;
	int rc = check_kind(&r, err);

	if (rc == 0 && r.file && r.kind != SC_REUSE_DEFAULT)
		rc = sc_err_set(err, SC_ECONFLICT, "reuse: file \"%.64s\" beside a description",
				r.file);
	if (rc)
		return rc;
	if (r.file && is_sample(r.file))
		rc = sc_index_sample_load(r.file, arena, &r, err);
	else if (r.file)
		rc = sc_reuse_load(r.file, arena, &r, err);
	else if (r.kind == SC_REUSE_DEFAULT && fallback)
		r = *fallback;
	else if (r.kind == SC_REUSE_DEFAULT)
		rc = sc_reuse_load("default", arena, &r, err);
	if (rc == 0)
		*reuse = r;
	return rc;
}
