/* Times `c3`: random pairs of a product and a collective, each under every policy with the best
 * split searched, one thread.
 *
 *   bench_c3 [PAIRS]     prints lines of what, value, unit, parted by tabs */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "study/c3/c3.h"

enum { N_PAIRS = 10000 };
static const char *const IDS[] = {"h100-sxm-80gb", "mi300x", "a100-sxm-80gb"};
enum { N_IDS = sizeof(IDS) / sizeof(IDS[0]) };

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double size(struct sc_rng *rng)
{
	return 256.0 * (double)(1 + sc_rng_below(rng, 64));
}

static void random_pair(struct sc_rng *rng, struct sc_c3_named *out)
{
	struct sc_c3_pair *pair = &out->pair;

	pair->kind = (enum sc_c3_kind)sc_rng_below(rng, 3);
	pair->gemm = (struct sc_op){.kind = SC_OP_GEMM, .dtype = SC_BF16};
	pair->gemm.u.gemm =
		(struct sc_gemm_shape){.batch = 1, .m = size(rng), .n = size(rng), .k = size(rng)};
	pair->transfer.shape = (struct sc_collective_shape){
		pair->kind == SC_C3_GEMM_SCATTER ? SC_REDUCE_SCATTER : SC_ALL_GATHER,
		ldexp(1, 18 + (int)sc_rng_below(rng, 13)), SC_BF16};
	pair->transfer.n_ranks = 8;
}

int main(int argc, char **argv)
{
	const long n = argc > 1 ? atol(argv[1]) : N_PAIRS;
	static struct sc_request machine[N_IDS];
	static struct sc_fabric fabric[N_IDS];
	struct sc_c3_study *study = sc_c3_study_create();
	struct sc_c3_advise_opts opts = {.from_bytes = 0};
	struct sc_arena arena;
	struct sc_rng rng;
	struct sc_err err = {.code = SC_OK};
	double start;

	sc_arena_init(&arena, 1 << 20);
	sc_rng_init(&rng, 1);
	for (int i = 0; i < N_IDS; i++) {
		struct sc_config *c = &machine[i].config;

		sc_config_init(c);
		c->gpus = c->cluster.gpus_per_node = c->cluster.scale_up_gpus = 8;
		c->cluster.nics_per_node = 0;
		if (sc_device_load(IDS[i], &arena, &machine[i].device, &err) ||
		    sc_fabric_profile_load("default", &arena, &machine[i].fabric_profile, &err) ||
		    sc_fabric_from_request(&machine[i], &fabric[i], NULL)) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
	}
	start = cpu_s();
	for (long i = 0; i < n; i++) {
		struct sc_c3_named named = {.name = ""};
		struct sc_c3_advice advice;

		random_pair(&rng, &named);
		named.pair.transfer.device = &machine[i % N_IDS].device;
		named.pair.transfer.fabric = &fabric[i % N_IDS];
		if (sc_c3_advise(study, &named, &opts, &advice, &err)) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
	}
	printf("c3, %ld pairs under every policy\t%.3f\ts\n", n, cpu_s() - start);
	sc_c3_study_destroy(study);
	sc_arena_release(&arena);
	return 0;
}
