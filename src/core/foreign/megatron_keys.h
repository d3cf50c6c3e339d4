/* Megatron-LM's options, and the same as NeMo's and Megatron-Bridge's YAML has them. */
#ifndef SC_CORE_MEGATRON_KEYS_H
#define SC_CORE_MEGATRON_KEYS_H

#include "core/foreign/foreign.h"

extern const struct sc_foreign_format sc_format_megatron, sc_format_nemo;

#endif
