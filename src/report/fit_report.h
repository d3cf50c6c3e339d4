/* A fit as text, JSON, a page, and a profile to use. */
#pragma once

#include "models/fit/fit.h"
#include "report/forms.h"

extern const struct sc_forms sc_fit_forms; /* of a struct sc_fit */
/* A file over the profile whose coefficients were fitted, named `id`; where `id` is that profile
 * itself, its lines alone, to paste. Collectives: entries of a fabric file, to paste, or with
 * curves a whole one. */
void sc_yaml_fit(const struct sc_fit *fit, const char *id, struct sc_strbuf *out);
