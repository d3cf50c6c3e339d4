/* The texts of the ops' names, from the table in op_names.h. */
#include "predict/op_names.h"

const char *sc_op_name(unsigned id)
{
	static const char *const TEXT[SC_N_OP_NAMES] = {
#define SC_OP_NAME_TEXT(name, text) text,
		SC_OP_NAMES(SC_OP_NAME_TEXT)
#undef SC_OP_NAME_TEXT
	};

	return id < SC_N_OP_NAMES ? TEXT[id] : "?";
}

const char *sc_op_tally_name(const void *ctx, unsigned id)
{
	(void)ctx;
	return sc_op_name(id);
}
