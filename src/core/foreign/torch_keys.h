/* What torchtitan's TOML and DeepSpeed's JSON say. */
#ifndef SC_CORE_TORCH_KEYS_H
#define SC_CORE_TORCH_KEYS_H

#include "core/foreign/foreign.h"

extern const struct sc_foreign_format sc_format_torchtitan, sc_format_deepspeed;

#endif
