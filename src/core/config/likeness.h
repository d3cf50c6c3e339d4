/* Error bands from what measured iterations have missed their predictions by: configs/likeness.csv.
 * An iteration's band holds the asked share of those errors; rows of its kind count more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

/* The respects in which iterations are alike, as texts; named as the columns of the file. */
enum sc_like_column {
	SC_LIKE_SUITE, /* who measured it: nobody's who asks, so only for leaving out; else NULL */
	SC_LIKE_GPU,
	SC_LIKE_SOFTWARE, /* the profile */
	SC_LIKE_MODEL,    /* dense, mixture, hybrid (mixers, attention), diffusion, dlrm, layers */
	SC_LIKE_NODES,    /* one, many */
	SC_LIKE_BITS,     /* of matrix products: 32, 16, 8 or fewer */
	SC_LIKE_NETWORK,  /* between nodes, as cluster.fabric names it; none */
	SC_N_LIKE_COLUMNS
};
extern const char *const sc_like_columns[];
struct sc_like {
	const char *at[SC_N_LIKE_COLUMNS];
};
enum { SC_CONFIDENCE_LEAST = 50, SC_CONFIDENCE_MOST = 95, SC_CONFIDENCE = 80 }; /* percent */
enum { SC_N_CONFIDENCES = SC_CONFIDENCE_MOST - SC_CONFIDENCE_LEAST + 1 };

struct sc_likeness;
/* In the arena; SC_EVALUE for a file without rows. */
int sc_likeness_load(const char *path, struct sc_arena *arena, const struct sc_likeness **out,
		     struct sc_err *err);
struct sc_band {
	struct sc_like like;
	const struct sc_likeness *from;
	double half_ln[SC_N_CONFIDENCES]; /* log of high / predicted, and of predicted / low */
	double own_ln;                    /* of 80 %, where the profile says its own; else 0 */
};
/* `leave_out`: 1 << column of what rows must have otherwise; all alike in all of it are left out.
 * 0: none is. The texts are borrowed. A pair of GPU and software that no row has, a kind of model,
 * and a network, gets no less than all rows alike would give. A software or a kind of model without
 * any row gets no less than softwares got of which only the switches were known, and a default no
 * less than softwares got without their name. */
void sc_band_find(const struct sc_likeness *likeness, const struct sc_like *like,
		  unsigned leave_out, struct sc_band *out);
/* Makes it the band whose 80 % hold own_ln > 0, as a stack's own runs say it (software.band_ln). */
void sc_band_take_own(struct sc_band *band, double own_ln);
/* factor to multiply and divide by. */
double sc_band_factor(const struct sc_band *band, int confidence_pct);

/* Rows of one software on one GPU. */
struct sc_band_rows {
	const char *gpu, *software;
	size_t n;
	double share; /* of all weights */
};
enum { SC_BAND_ROWS = 3 }; /* that reports name */
/* Those that weigh most, the heaviest first; none of a profile's own band; returns how many there
 * are, at most n_most. *n_all: rows of the file. */
size_t sc_band_sources(const struct sc_band *band, struct sc_band_rows *out, size_t n_most,
		       size_t *n_all);
/* Rows that are alike in all of the columns: a set of 1 << column; 0: all rows. */
struct sc_like_rows {
	size_t n, n_suites;
	double median_ln, p90_ln; /* of the errors; 0 without rows */
};
void sc_band_count(const struct sc_band *band, unsigned columns, struct sc_like_rows *out);
/* Softwares named so, and those that continue with a dash, are defaults: nobody named any. */
#define SC_NAMELESS "default"
bool sc_band_is_nameless(const struct sc_band *band);
/* Those whose rows a default's band is of; 0: it is none, or there are none. */
size_t sc_band_softwares(const struct sc_band *band);
/* Has a row this GPU and software; and this kind of model and this network on any of them? */
bool sc_band_is_seen(const struct sc_band *band);
bool sc_band_knows_model(const struct sc_band *band);
bool sc_band_knows_network(const struct sc_band *band);
