/* Hugging Face's config.json as a model: `model: config.json`, or one of the files of `config import`. */
#ifndef SC_CORE_HF_MODEL_H
#define SC_CORE_HF_MODEL_H

#include "core/foreign/foreign.h"

extern const struct sc_foreign_format sc_format_hf;
bool sc_hf_is_model(const struct sc_yaml *map); /* has model_type */
/* Turns the mapping of a config.json into that of a model file, each value with its place in the JSON. A field
 * that changes what a step costs and has no key of ours is an error that names it; so is a model_type that is
 * not known, and a number or a `true` that is in no list. Positions that are computed give no model.seq: the run
 * says it. */
int sc_hf_model_take(struct sc_yaml *map, struct sc_arena *arena, struct sc_err *err);

#endif
