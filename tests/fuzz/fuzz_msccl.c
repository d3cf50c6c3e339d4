/* sc_msccl_parse on any bytes; what it accepts must be within its limits, and the proof must end.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "models/msccl/msccl.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void check_algorithm(const struct sc_msccl *algo)
{
	struct sc_err err = {.code = SC_OK};

	expect(algo->n_gpus >= 1 && algo->n_gpus <= SC_MSCCL_MAX_GPUS);
	expect(algo->n_chunks >= 1 && algo->n_chunks <= SC_MSCCL_MAX_CHUNKS);
	for (size_t t = 0; t < algo->n_tbs; t++) {
		expect(algo->tbs[t].first + algo->tbs[t].n <= algo->n_steps);
		expect(algo->tbs[t].send < algo->n_gpus && algo->tbs[t].recv < algo->n_gpus);
	}
	for (size_t s = 0; s < algo->n_steps; s++)
		expect(algo->steps[s].count <= SC_MSCCL_MAX_COUNT && algo->steps[s].line > 0);
	if (sc_msccl_check(algo, &err))
		expect(err.text[0] != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_msccl algo = {.n_gpus = 0};
	struct sc_arena arena;

	sc_arena_init(&arena, 1024);
	if (sc_msccl_parse(&(struct sc_source){(const char *)data, size, "fuzz.xml"}, &arena, &algo,
			   &err) == 0)
		check_algorithm(&algo);
	else
		expect(err.code != SC_OK && err.text[0] && algo.n_gpus == 0 && err.line > 0);
	sc_arena_release(&arena);
	return 0;
}
