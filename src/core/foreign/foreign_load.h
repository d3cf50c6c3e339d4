/* Configs of other programs as one of ours: each file's format is found by its content, its keys become ours. */
#ifndef SC_CORE_FOREIGN_LOAD_H
#define SC_CORE_FOREIGN_LOAD_H

#include "core/foreign/foreign.h"

/* Adds what one file says; sc_foreign_finish follows the last. Formats: a script or command line of Megatron-LM, YAML of NeMo or Megatron-Bridge, TOML of
 * torchtitan, JSON of DeepSpeed, config.json of Hugging Face, a list of tables of TorchRec. */
int sc_foreign_add(struct sc_foreign_lines *lines, const struct sc_source *text,
		   struct sc_err *err);
int sc_foreign_load(struct sc_foreign_lines *lines, const char *path, struct sc_err *err);

#endif
