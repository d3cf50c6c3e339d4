/* A fit, or a calibration, as text, JSON, a page, and a profile to use. */
#pragma once

#include "report/forms.h"
#include "study/calibrate/calibrate.h"

extern const struct sc_forms sc_fit_forms; /* of a struct sc_fit */
/* A file over the profile whose coefficients were fitted, named `id`; where `id` is that profile
 * itself, its lines alone, to paste. Collectives: entries of a fabric file, to paste, or with
 * curves a whole one. */
void sc_yaml_fit(const struct sc_fit *fit, const char *id, struct sc_strbuf *out);
extern const struct sc_forms sc_calibration_forms; /* of a struct sc_calibration */
/* A profile named `id`, which is not the one that the calibration starts from, over that. */
void sc_yaml_calibration(const struct sc_calibration *calibration, const char *id,
			 struct sc_strbuf *out);
