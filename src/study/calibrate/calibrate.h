/* Makes a software profile from a stack's own runs: finds which numbers of the profile that they
 * start from make them right, and how far other runs of the stack will be off. No coefficient is
 * named, and one run is enough to begin. */
#pragma once

#include "study/fit/fit_iterations.h"

enum {
	SC_CALIBRATE_CROSS = 20, /* rows from which on errors are cross-validated */
	SC_CALIBRATE_NUMBERS = 12
};

struct sc_calibration {
	/* The fit has the form of a fit of iterations; a number that the rows hardly tell is
	 * SC_FIT_LEANT. From SC_CALIBRATE_CROSS rows on each row is held out in turn. */
	struct sc_fit fit;
	const char *software;     /* the one that it starts from */
	double start_ln, band_ln; /* half-widths of 80 % bands: of the start; of what is written */
	double rms_ln;            /* of errors in sample, or held out */
	const struct sc_validation *validation;
	/* The kind of runs that tell each of fit.coefs. */
	const char *runs[SC_CALIBRATE_NUMBERS];
};
/* Half the 80 % band of a stack with start_ln, of which k runs leave errors of rms_ln. */
double sc_calibration_band_ln(double start_ln, double rms_ln, size_t k);

/* opts: base, table, where, n_jobs and predict are read. Rows that are not like their kin
 * (study/validate/kin.h) are left out. Rows of several software profiles are SC_EUSAGE, none that
 * can be predicted SC_EVALUE. Everything in `out` lives in the arena; equal input gives equal
 * output, whatever the number of jobs. */
int sc_calibrate(const struct sc_itfit_opts *opts, struct sc_catalog *catalog,
		 struct sc_arena *arena, struct sc_calibration *out, struct sc_err *err);
