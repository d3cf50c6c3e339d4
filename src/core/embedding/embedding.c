/* Names of who places embedding tables, and of what steps their rows. */
#include "core/embedding/embedding.h"

const struct sc_name sc_planner_names[] = {
	{"stepcast", SC_PLANNER_STEPCAST}, {"torchrec", SC_PLANNER_TORCHREC},
	{"hugectr", SC_PLANNER_HUGECTR},   {"memory_balanced", SC_PLANNER_MEMORY_BALANCED},
	{"lookups", SC_PLANNER_LOOKUPS},   {0},
};
const struct sc_name sc_optimizer_names[] = {
	{"adam", SC_OPT_ADAM},
	{"sgd", SC_OPT_SGD},
	{"adagrad", SC_OPT_ADAGRAD},
	{"none", SC_OPT_NONE},
	{"rowwise_adagrad", SC_OPT_ROWWISE_ADAGRAD},
	{"atomic_sgd", SC_OPT_ATOMIC_SGD},
	{0},
};

enum sc_optimizer sc_optimizer_dense(enum sc_optimizer optimizer)
{
	return optimizer == SC_OPT_ROWWISE_ADAGRAD ? SC_OPT_ADAGRAD
	       : optimizer == SC_OPT_ATOMIC_SGD    ? SC_OPT_SGD
						   : optimizer;
}

double sc_optimizer_step_bytes(enum sc_optimizer optimizer)
{
	static const double bytes[] = {
		[SC_OPT_ADAM] = 28, [SC_OPT_SGD] = 12, [SC_OPT_ADAGRAD] = 20, [SC_OPT_NONE] = 0};

	return bytes[sc_optimizer_dense(optimizer)];
}
