/* A calibration as text, JSON and a software profile. */
#pragma once

#include "report/forms.h"
#include "study/calibrate/calibrate.h"

extern const struct sc_forms sc_calibration_forms; /* of a struct sc_calibration */
/* A profile named `id`, which is not the one that the calibration starts from, over that. */
void sc_yaml_calibration(const struct sc_calibration *calibration, const char *id,
			 struct sc_strbuf *out);
