/* See the header. */
#include "predict/shard/model_errors.h"

#include <math.h>

static double draw(struct sc_rng *rng, double sigma)
{
	return exp(sigma * sc_rng_normal(rng) - sigma * sigma / 2);
}

void sc_model_errors_draw(const struct sc_model_spread *spread, struct sc_rng *rng, double *tables,
			  size_t n_tables, struct sc_model_errors *out)
{
	out->lookup = draw(rng, spread->kernel);
	out->update = draw(rng, spread->kernel);
	out->all_to_all = draw(rng, spread->collective);
	out->reduction = draw(rng, spread->collective);
	out->dense = draw(rng, spread->dense);
	out->tables = tables;
	for (size_t i = 0; i < n_tables; i++)
		tables[i] = draw(rng, spread->table);
}
