/* Finds the micro-batch that is taken where none is given: the largest that fits by the memory
 * estimate, which needs nothing built. */
#include <math.h>

#include "predict/layers/layers.h"
#include "predict/predict.h"
#include "predict/transformer/summarize.h"

/* Returns the sc_memory_fullness that a prediction would have. */
static double fullness(struct sc_request *request, int64_t micro_batch)
{
	int64_t samples = request->n_micro_batches * request->config.training.micro_batch;
	struct sc_memory memory;

	request->config.training.micro_batch = micro_batch;
	request->n_micro_batches = samples / micro_batch;
	if (request->config.model.family == SC_LAYERS)
		sc_layers_memory(request, &memory);
	else {
		/* Without a pipeline stage 0 is fullest: the request alone says what it holds. */
		const double on_node =
			fmin((double)sc_request_node_gpus(request), (double)request->config.gpus);
		struct sc_transformer *tf = sc_xcalloc(1, sizeof(*tf));
		const struct sc_run run = {.tf = tf};
		struct sc_arena arena;

		sc_arena_init(&arena, 0);
		sc_transformer_init_held(tf, request, &arena);
		sc_memory_of_class(&run, 0,
				   request->config.parallel.schedule == SC_SCHED_GPIPE
					   ? (double)request->n_micro_batches
					   : 1,
				   &memory);
		for (size_t k = 0; k < sc_request_n_kinds(request); k++)
			memory.capacity_gib =
				fmin(memory.capacity_gib, sc_request_device(request, k)->hbm_gib);
		memory.host_gib *= on_node;
		memory.ssd_gib *= on_node;
		sc_arena_release(&arena);
		free(tf);
	}
	return sc_memory_fullness(&memory);
}

int sc_resolve_request(const struct sc_config *config, struct sc_catalog *catalog, const char *file,
		       struct sc_request *out, struct sc_err *err)
{
	int rc = sc_config_resolve(config, catalog, file, out, err);
	struct sc_config smaller = *config;
	int64_t samples, n = 1;

	if (rc || config->training.micro_batch != SC_NOT_GIVEN ||
	    sc_habit_of(out, "training.micro_batch") || out->config.parallel.pp > 1 ||
	    out->config.model.family == SC_DLRM)
		return rc;
	samples = out->config.training.micro_batch;
	if (samples == 1 || fullness(out, samples) <= 1)
		return 0;
	while (samples % (2 * n) == 0 && 2 * n < samples && fullness(out, 2 * n) <= 1)
		n *= 2;
	smaller.training.micro_batch = n;
	return sc_config_resolve(&smaller, catalog, file, out, err);
}
