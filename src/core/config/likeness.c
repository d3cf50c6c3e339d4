/* The band of an iteration, as a weighted quantile of what iterations like it missed. A line of the
 * file is a set of rows that are alike in all columns. Rows that are alike in all but the suite
 * count together as the root of their number, for rows of one sweep, and of one benchmark on many
 * machines, err alike. What a line shares with the iteration multiplies that. The factors were
 * compared over all rows, each with its suite on its GPU left out (tests/accuracy/README.md): the
 * model's kind and whether there is a network between nodes matter; the others hardly do. Which
 * network it is says only whether any row had it. The software of a line says what was known: one
 * with a profile as shipped; `default/X` of X without its name; `read/X` of X with its switches and
 * neutral numbers. The latter two are of strangers, and each software has one vote. */
#include "core/config/likeness.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/fnv.h"
#include "base/stats.h"
#include "base/units.h"

const char *const sc_like_columns[] = {"suite", "cluster.gpu", "training.software", "model",
				       "nodes", "bits",        "network",           NULL};
static const double ALIKE[SC_N_LIKE_COLUMNS] = {1, 1.5, 1.5, 16, 16, 1.5, 1};

static const char *const PREFIXES[] = {"", "default/", "read/"};
enum { MOST_ERROR = 9999 }; /* in thousandths, as the file has them */
enum knowledge { OWN, NAMELESS, READ };

struct line {
	struct sc_like like;
	enum knowledge knowledge;
	uint64_t but_suite;   /* hash of the other columns */
	size_t n;             /* rows of it */
	uint64_t of_software; /* hash */
	double weight;        /* of one of them */
};
struct error {
	double ln; /* of measured over predicted, absolute */
	size_t line;
};
struct sc_likeness {
	const struct line *lines;
	size_t n_lines;
	struct error *errors; /* ascending */
	size_t n_errors;
	size_t n_rows[3], n_software[3]; /* by what was known */
};

/* "12 7 103", in thousandths, as errors that are not in order yet; there is room. */
static int read_errors(struct sc_likeness *l, const struct sc_csv *csv, size_t row,
		       const char *text, struct sc_err *err)
{
	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		const char *word = text;
		int number = 0;

		while (*text >= '0' && *text <= '9' && number <= MOST_ERROR)
			number = 10 * number + *text++ - '0';
		if (text == word || (*text && *text != ' ') || number > MOST_ERROR)
			return sc_err_at(
				err, SC_EVALUE, csv->file, csv->line[row], 0,
				"errors: expected whole numbers from 0 to %d, got \"%.64s\"",
				MOST_ERROR, word);
		l->errors[l->n_errors++] = (struct error){number / SC_PER_MILLE, row};
	}
	return 0;
}

/* Ascending, those of one size by their lines, as read: counting takes a fifth of a sort. */
static void sort_errors(struct sc_likeness *l, struct error *out)
{
	uint32_t *first = sc_xcalloc(MOST_ERROR + 2, sizeof(*first));
	size_t most = 0;

	for (size_t i = 0; i < l->n_errors; i++) {
		const size_t size = (size_t)lround(l->errors[i].ln * SC_PER_MILLE);

		first[size + 1]++;
		most = size > most ? size : most;
	}
	for (size_t size = 0; size < most; size++)
		first[size + 1] += first[size];
	for (size_t i = 0; i < l->n_errors; i++)
		out[first[(size_t)lround(l->errors[i].ln * SC_PER_MILLE)]++] = l->errors[i];
	l->errors = out;
	free(first);
}

static bool is_same(const struct sc_like *a, const struct sc_like *b, int column)
{
	return a->at[column] && b->at[column] && strcmp(a->at[column], b->at[column]) == 0;
}

static enum knowledge knowledge_of(const char *software)
{
	enum knowledge k = READ;

	while (strncmp(software, PREFIXES[k], strlen(PREFIXES[k])) != 0)
		k--;
	return k;
}

/* Sums by key, in a table with more slots than keys. */
struct key_sum {
	uint64_t key; /* 0: free */
	double sum;
};
static double *sum_of(struct key_sum *sums, size_t n_slots, uint64_t key)
{
	size_t slot = (size_t)((key | 1) % n_slots);

	while (sums[slot].key && sums[slot].key != (key | 1))
		slot = (slot + 1) % n_slots;
	sums[slot].key = key | 1;
	return &sums[slot].sum;
}

/* Weights of rows, before what they share with an iteration. */
static void weigh_lines(struct sc_likeness *l, struct line *lines)
{
	const size_t n_slots = 4 * l->n_lines + 1;
	struct key_sum *sums = sc_xcalloc(n_slots, sizeof(*sums));

	for (struct line *line = lines; line < lines + l->n_lines; line++)
		*sum_of(sums, n_slots, line->but_suite) += (double)line->n;
	for (struct line *line = lines; line < lines + l->n_lines; line++)
		line->weight = line->n ? 1 / sqrt(*sum_of(sums, n_slots, line->but_suite)) : 0;
	memset(sums, 0, n_slots * sizeof(*sums));
	for (struct line *line = lines; line < lines + l->n_lines; line++) {
		double *vote = sum_of(sums, n_slots, line->of_software);

		l->n_rows[line->knowledge] += line->n;
		l->n_software[line->knowledge] += line->n && !(*vote > 0);
		*vote += (double)line->n * line->weight;
	}
	for (struct line *line = lines; line < lines + l->n_lines; line++)
		if (line->n && line->knowledge != OWN)
			line->weight /= *sum_of(sums, n_slots, line->of_software);
	free(sums);
}

static int read_lines(struct sc_likeness *l, const struct sc_csv *csv, struct sc_arena *arena,
		      struct sc_err *err)
{
	struct line *lines = sc_arena_calloc(arena, csv->n_rows + 1, sizeof(*lines));
	const int errors = sc_csv_column(csv, "errors");
	int at[SC_N_LIKE_COLUMNS];
	size_t room = 1;
	int rc = 0;

	for (int c = 0; c < SC_N_LIKE_COLUMNS || errors < 0; c++)
		if (errors < 0 || (at[c] = sc_csv_column(csv, sc_like_columns[c])) < 0)
			return sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "no column \"%s\"",
					 errors < 0 ? "errors" : sc_like_columns[c]);
	for (size_t row = 0; row < csv->n_rows; row++)
		room += strlen(sc_csv_cell(csv, row, (size_t)errors)) / 2 + 1;
	l->errors = sc_arena_calloc(arena, room, sizeof(*l->errors));
	for (size_t row = 0; row < csv->n_rows && rc == 0; row++) {
		const size_t before = l->n_errors;
		const char *text = sc_csv_cell(csv, row, (size_t)errors);

		lines[row].but_suite = SC_FNV_START;
		for (int c = 0; c < SC_N_LIKE_COLUMNS; c++) {
			const char *cell = sc_csv_cell(csv, row, (size_t)at[c]);

			lines[row].like.at[c] = cell;
			if (c > 0)
				lines[row].but_suite =
					sc_fnv(lines[row].but_suite, cell, strlen(cell) + 1);
		}
		rc = read_errors(l, csv, row, text, err);
		lines[row].n = l->n_errors - before;
		text = lines[row].like.at[SC_LIKE_SOFTWARE];
		lines[row].knowledge = knowledge_of(text);
		lines[row].of_software = sc_fnv(SC_FNV_START, text, strlen(text));
	}
	l->lines = lines;
	l->n_lines = csv->n_rows;
	weigh_lines(l, lines);
	if (rc == 0 && l->n_errors == 0)
		rc = sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "no measured row");
	return rc;
}

int sc_likeness_load(const char *path, struct sc_arena *arena, const struct sc_likeness **out,
		     struct sc_err *err)
{
	struct sc_likeness *l = sc_arena_calloc(arena, 1, sizeof(*l));
	struct sc_csv csv;
	int rc = sc_csv_load(path, arena, &csv, err);

	if (rc == 0)
		rc = read_lines(l, &csv, arena, err);
	if (rc)
		return rc;
	sort_errors(l, sc_arena_calloc(arena, l->n_errors, sizeof(*l->errors)));
	*out = l;
	return 0;
}

/* In all of a set of columns that is not empty. */
static bool is_alike(const struct line *line, const struct sc_like *like, unsigned columns)
{
	for (int c = 0; c < SC_N_LIKE_COLUMNS; c++)
		if (columns >> c & 1 && !is_same(&line->like, like, c))
			return false;
	return columns != 0;
}

/* The weight of one row of the line; 0: left out. */
static double row_weight(const struct line *line, const struct sc_like *like, unsigned leave_out,
			 bool by_likeness)
{
	double weight = line->weight;

	for (int c = 0; c < SC_N_LIKE_COLUMNS && by_likeness; c++)
		if (is_same(&line->like, like, c))
			weight *= ALIKE[c];
	return is_alike(line, like, leave_out) ? 0 : weight;
}

/* Raises each of half_ln to the quantile; to the largest error where all are left out. */
static void raise_to_quantiles(const struct sc_likeness *l, const double *weights, double *half_ln)
{
	double total = 0, sum = weights[l->errors[0].line];
	size_t i = 0;

	for (size_t k = 0; k < l->n_lines; k++)
		total += weights[k] * (double)l->lines[k].n;
	for (int c = 0; c < SC_N_CONFIDENCES; c++) {
		const double need = total * (SC_CONFIDENCE_LEAST + c) / SC_PCT;

		while (i + 1 < l->n_errors && !(sum > 0 && sum >= need))
			sum += weights[l->errors[++i].line];
		half_ln[c] = fmax(half_ln[c], l->errors[i].ln);
	}
}

/* Raises each of half_ln by the lines of one knowledge. Nothing without such lines. */
static bool raise_by(struct sc_band *band, enum knowledge knowledge, unsigned leave_out,
		     bool by_likeness)
{
	const struct sc_likeness *l = band->from;
	double *weights = sc_xcalloc(l->n_lines + 1, sizeof(*weights));

	for (size_t i = 0; i < l->n_lines; i++)
		if (l->lines[i].knowledge == knowledge)
			weights[i] = row_weight(&l->lines[i], &band->like, leave_out, by_likeness);
	if (l->n_rows[knowledge])
		raise_to_quantiles(l, weights, band->half_ln);
	free(weights);
	return l->n_rows[knowledge] > 0;
}

/* Has a row, not left out, all of these columns of the iteration? */
static bool has_row(const struct sc_band *band, unsigned columns, unsigned leave_out)
{
	for (size_t i = 0; i < band->from->n_lines; i++)
		if (is_alike(&band->from->lines[i], &band->like, columns) &&
		    row_weight(&band->from->lines[i], &band->like, leave_out, true) > 0)
			return true;
	return false;
}

/* The pair has a row, and so have the kind of model and the network on any pair. */
static bool is_seen(const struct sc_band *band, unsigned leave_out)
{
	return has_row(band, 1u << SC_LIKE_GPU | 1u << SC_LIKE_SOFTWARE, leave_out) &&
	       has_row(band, 1u << SC_LIKE_MODEL, leave_out) &&
	       has_row(band, 1u << SC_LIKE_NETWORK, leave_out);
}

void sc_band_find(const struct sc_likeness *l, const struct sc_like *like, unsigned leave_out,
		  struct sc_band *out)
{
	*out = (struct sc_band){.like = *like, .from = l};
	if (!sc_band_is_nameless(out) || !raise_by(out, NAMELESS, leave_out, true)) {
		raise_by(out, OWN, leave_out, true);
		if (is_seen(out, leave_out))
			return;
		raise_by(out, OWN, leave_out, false);
		if (has_row(out, 1u << SC_LIKE_SOFTWARE, leave_out) &&
		    has_row(out, 1u << SC_LIKE_MODEL, leave_out))
			return;
	}
	raise_by(out, READ, leave_out, true);
}

bool sc_band_is_nameless(const struct sc_band *band)
{
	const char *software = band->like.at[SC_LIKE_SOFTWARE];
	const size_t n = strlen(SC_NAMELESS);

	return software && strncmp(software, SC_NAMELESS, n) == 0 &&
	       (software[n] == '-' || software[n] == '\0');
}

size_t sc_band_softwares(const struct sc_band *band)
{
	return sc_band_is_nameless(band) ? band->from->n_software[NAMELESS] : 0;
}

/* Errors of a stack known by a few runs are of many kinds, with tails of Laplace's distribution. */
void sc_band_take_own(struct sc_band *band, double own_ln)
{
	band->own_ln = own_ln;
	for (int c = 0; c < SC_N_CONFIDENCES; c++)
		band->half_ln[c] = own_ln * log1p(-(SC_CONFIDENCE_LEAST + c) / SC_PCT) /
				   log1p(-SC_CONFIDENCE / SC_PCT);
}

double sc_band_factor(const struct sc_band *band, int confidence_pct)
{
	assert(confidence_pct >= SC_CONFIDENCE_LEAST && confidence_pct <= SC_CONFIDENCE_MOST);
	return exp(band->half_ln[confidence_pct - SC_CONFIDENCE_LEAST]);
}

bool sc_band_is_seen(const struct sc_band *band)
{
	return has_row(band, 1u << SC_LIKE_GPU | 1u << SC_LIKE_SOFTWARE, 0);
}

bool sc_band_knows_model(const struct sc_band *band)
{
	return has_row(band, 1u << SC_LIKE_MODEL, 0);
}

bool sc_band_knows_network(const struct sc_band *band)
{
	return has_row(band, 1u << SC_LIKE_NETWORK, 0);
}

void sc_band_count(const struct sc_band *band, unsigned columns, struct sc_like_rows *out)
{
	const struct sc_likeness *l = band->from;
	double *errors = sc_xcalloc(l->n_errors + 1, sizeof(*errors));
	bool *alike = sc_xcalloc(l->n_lines + 1, sizeof(*alike));

	*out = (struct sc_like_rows){.n = 0};
	for (size_t i = 0; i < l->n_lines; i++) {
		bool is_new = true;

		alike[i] = l->lines[i].knowledge == OWN &&
			   (columns == 0 || is_alike(&l->lines[i], &band->like, columns));
		for (size_t k = 0; k < i && is_new; k++)
			is_new = !alike[k] || strcmp(l->lines[k].like.at[SC_LIKE_SUITE],
						     l->lines[i].like.at[SC_LIKE_SUITE]) != 0;
		out->n_suites += alike[i] && is_new;
	}
	for (size_t i = 0; i < l->n_errors; i++) /* in order */
		if (alike[l->errors[i].line])
			errors[out->n++] = l->errors[i].ln;
	if (out->n) {
		out->median_ln = sc_percentile_sorted(errors, out->n, 50);
		out->p90_ln = sc_percentile_sorted(errors, out->n, 90);
	}
	free(errors);
	free(alike);
}

size_t sc_band_sources(const struct sc_band *band, struct sc_band_rows *out, size_t n_most,
		       size_t *n_all)
{
	const struct sc_likeness *l = band->from;
	struct sc_band_rows *all = sc_xcalloc(l->n_lines + 1, sizeof(*all));
	const bool is_nameless = sc_band_softwares(band) > 0;
	double total = 0;
	size_t n = 0, n_out = 0;

	n_most = band->own_ln > 0 ? 0 : n_most;
	*n_all = 0;
	for (size_t i = 0; i < l->n_lines; i++) {
		const struct sc_like *of = &l->lines[i].like;
		const enum knowledge knowledge = l->lines[i].knowledge;
		const double weight =
			(double)l->lines[i].n * row_weight(&l->lines[i], &band->like, 0, true);
		size_t k = 0;

		if (knowledge != (is_nameless ? NAMELESS : OWN))
			continue;
		*n_all += l->lines[i].n;
		while (k < n && (strcmp(all[k].gpu, of->at[SC_LIKE_GPU]) != 0 ||
				 strcmp(all[k].software, of->at[SC_LIKE_SOFTWARE]) != 0))
			k++;
		n += k == n;
		all[k].gpu = of->at[SC_LIKE_GPU];
		all[k].software = of->at[SC_LIKE_SOFTWARE];
		all[k].n += l->lines[i].n;
		all[k].share += weight;
		total += weight;
	}
	for (; n_out < n_most && n_out < n; n_out++) {
		size_t most = 0;

		for (size_t k = 1; k < n; k++)
			if (all[k].share > all[most].share)
				most = k;
		out[n_out] = all[most];
		out[n_out].share /= total;
		all[most].share = -1;
	}
	free(all);
	return n_out;
}
