/* Hugging Face's config.json as a model: `model: config.json`. JSON is YAML here; its keys become ours. */
#ifndef SC_CORE_HF_MODEL_H
#define SC_CORE_HF_MODEL_H

#include "base/yaml.h"

bool sc_hf_is_model(const struct sc_yaml *map); /* has model_type */
/* Turns the mapping of a config.json into that of a model file, each value with its place in the JSON. A field
 * that changes what a step costs and has no key of ours is an error that names it; so is a model_type that is
 * not known, and a number that is in no list. Positions that are computed give no model.seq: the run says it. */
int sc_hf_model_take(struct sc_yaml *map, struct sc_arena *arena, struct sc_err *err);

#endif
