/* TOML to the tree of base/yaml.h, over toml++. Dates are texts. Size, depth and count are limited
 * as YAML's are. */
#pragma once

#include "base/yaml.h"

#ifdef __cplusplus
extern "C" {
#endif
/* The root is a mapping, perhaps empty. In a build without the library every text is
 * SC_EUNSUPPORTED. */
int sc_toml_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_yaml **out,
		  struct sc_err *err);
#ifdef __cplusplus
}
#endif
