/* Nodes per second of one core and memory of the engine, on graphs of four shapes. Usage:
 * bench_simulate [NODES...]; lines of three fields parted by tabs. Not a test: it has no
 * expectations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "predict/engine/simulate.h"

enum { N_STAGES = 8, LAYERS_PER_BUCKET = 4 };

struct shape {
	const char *name;
	void (*build)(struct sc_graph *graph, size_t n_nodes);
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double peak_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static void add_classes(struct sc_graph *graph)
{
	const struct sc_class class = {.multiplicity = 8,
				       .nic_domain = 0,
				       .ranks_per_domain = 8,
				       .slowdown = 1,
				       .name = SC_NONE};

	for (int i = 0; i < N_STAGES; i++)
		sc_graph_add_class(graph, class);
	for (uint32_t i = 0; i < N_STAGES; i++)
		graph->classes.at[i].nic_domain = i;
}

/* Stages of a pipeline: forward passes one after the other, each sent on with a rendezvous. */
static void build_pipeline(struct sc_graph *graph, size_t n_nodes)
{
	const struct sc_cost none = {0};
	const struct sc_cost pass = {.latency_us = 4, .work_us = 1000};
	const struct sc_cost transfer = {.latency_us = 16, .work_us = 64};
	const size_t n_batches = n_nodes / (N_STAGES * 3 - 2);
	const uint32_t none_id = sc_graph_add_cost(graph, &none);
	const uint32_t pass_id = sc_graph_add_cost(graph, &pass);
	const uint32_t transfer_id = sc_graph_add_cost(graph, &transfer);
	uint32_t compute[N_STAGES], in[N_STAGES], out[N_STAGES];

	add_classes(graph);
	for (uint32_t s = 0; s < N_STAGES; s++) {
		compute[s] = sc_graph_add_lane(graph, s, SC_LANE_COMPUTE);
		in[s] = sc_graph_add_lane(graph, s, SC_LANE_COMM);
		out[s] = sc_graph_add_lane(graph, s, SC_LANE_COMM);
	}
	for (size_t b = 0; b < n_batches; b++) {
		uint32_t received = SC_NONE;

		for (uint32_t s = 0; s < N_STAGES; s++) {
			const struct sc_member pair[2] = {{s, 8}, {s + 1, 8}};
			const uint32_t node =
				sc_graph_add_node(graph, SC_NODE_KERNEL, compute[s],
						  (struct sc_node_use){pass_id, SC_NONE});
			uint32_t group;

			if (received != SC_NONE)
				sc_graph_add_dep(graph, node, received);
			if (s + 1 == N_STAGES)
				continue;
			group = sc_graph_add_group(
				graph, (struct sc_node_use){transfer_id, SC_NONE}, pair, 2);
			sc_graph_add_dep(
				graph,
				sc_graph_add_member(graph, out[s], group,
						    (struct sc_node_use){none_id, SC_NONE}),
				node);
			received = sc_graph_add_member(graph, in[s + 1], group,
						       (struct sc_node_use){none_id, SC_NONE});
		}
	}
}

struct ops {
	struct sc_cost kernel, collective;
	int joint;      /* one collective of all classes, else one within each */
	double skew_us; /* how much longer each class's launches take than the one before's */
};

/* A bucket's worth of layers on one class; returns the kernel that ends it. */
static uint32_t add_layers(struct sc_graph *graph, uint32_t c, uint32_t launch, uint32_t kernel)
{
	uint32_t node = SC_NONE;

	for (int k = 0; k < LAYERS_PER_BUCKET; k++) {
		const uint32_t from = sc_graph_add_node(graph, SC_NODE_LAUNCH, 3 * c,
							(struct sc_node_use){launch, SC_NONE});

		node = sc_graph_add_node(graph, SC_NODE_KERNEL, 3 * c + 1,
					 (struct sc_node_use){kernel, SC_NONE});
		sc_graph_add_dep(graph, node, from);
	}
	return node;
}

/* On each class a host lane launches kernels, and collectives run beside them. */
static void build_ops(struct sc_graph *graph, size_t n_nodes, const struct ops *ops)
{
	const struct sc_cost none = {0};
	const uint32_t none_id = sc_graph_add_cost(graph, &none);
	const uint32_t kernel = sc_graph_add_cost(graph, &ops->kernel);
	const uint32_t collective = sc_graph_add_cost(graph, &ops->collective);
	const size_t n_rounds = n_nodes / (N_STAGES * (2 * LAYERS_PER_BUCKET + 1));
	struct sc_member member[N_STAGES];
	uint32_t launch[N_STAGES];

	add_classes(graph);
	for (uint32_t c = 0; c < N_STAGES; c++) {
		const struct sc_cost call = {.work_us = 5 + c * ops->skew_us};

		sc_graph_add_lane(graph, c, SC_LANE_HOST);
		sc_graph_add_lane(graph, c, SC_LANE_COMPUTE);
		sc_graph_add_lane(graph, c, SC_LANE_COMM);
		launch[c] = sc_graph_add_cost(graph, &call);
		member[c] = (struct sc_member){c, 8};
	}
	for (size_t r = 0; r < n_rounds; r++) {
		uint32_t group = SC_NONE;

		for (uint32_t c = 0; c < N_STAGES; c++) {
			const uint32_t last = add_layers(graph, c, launch[c], kernel);

			if (!ops->joint || !c)
				group = sc_graph_add_group(
					graph, (struct sc_node_use){collective, SC_NONE},
					&member[c], ops->joint ? N_STAGES : 1);
			sc_graph_add_dep(
				graph,
				sc_graph_add_member(graph, 3 * c + 2, group,
						    (struct sc_node_use){none_id, SC_NONE}),
				last);
		}
	}
}

static void build_alone(struct sc_graph *graph, size_t n_nodes)
{
	const struct ops ops = {
		.kernel = {.latency_us = 2, .work_us = 20},
		.collective = {.latency_us = 10, .work_us = 60},
	};

	build_ops(graph, n_nodes, &ops);
}

/* Every kernel wants all SMs and most of HBM; the collective takes some of both. */
static struct ops contending(void)
{
	struct ops ops = {
		.kernel = {.latency_us = 2, .work_us = 20, .waves = 4},
		.collective = {.latency_us = 10, .work_us = 60, .holds_sm = 1},
	};

	ops.kernel.demand[SC_RES_SM] = 1;
	ops.kernel.demand[SC_RES_HBM] = 0.8;
	ops.collective.demand[SC_RES_SM] = 0.2;
	ops.collective.demand[SC_RES_HBM] = 0.3;
	ops.collective.demand[SC_RES_NIC] = 0.125;
	return ops;
}

static void build_contended(struct sc_graph *graph, size_t n_nodes)
{
	const struct ops ops = contending();

	build_ops(graph, n_nodes, &ops);
}

/* Collectives tie the rates of all classes together, and no two classes are in step. */
static void build_coupled(struct sc_graph *graph, size_t n_nodes)
{
	struct ops ops = contending();

	ops.joint = 1;
	ops.skew_us = 0.37;
	build_ops(graph, n_nodes, &ops);
}

enum phase { BUILD, SEAL, FIRST_RUN, RUN, N_PHASES };

static void report(const char *name, const struct sc_graph *graph, const double *phase_s)
{
	static const char *const names[N_PHASES] = {"build", "seal", "first run", "run"};
	const double n = (double)graph->nodes.n;

	for (int i = 0; i < N_PHASES; i++)
		printf("%s %.0f nodes: %s\t%.1f\tns/node\n", name, n, names[i],
		       phase_s[i] * 1e9 / n);
	printf("%s %.0f nodes: simulated\t%.2f\tMnodes/s\n", name, n, n / phase_s[RUN] / 1e6);
	printf("%s %.0f nodes: peak memory so far\t%.0f\tMiB\n", name, n, peak_mib());
}

static int run(const struct shape *shape, size_t n_nodes, struct sc_simulator *sim)
{
	struct sc_graph graph;
	struct sc_timeline timeline = {0};
	struct sc_err err = {0};
	double t0 = now_s(), built_s, sealed_s, first_s, run_s;
	int n_runs = 0;
	int rc;

	sc_graph_init(&graph);
	shape->build(&graph, n_nodes);
	built_s = now_s() - t0;
	t0 = now_s();
	sc_graph_seal(&graph);
	sealed_s = now_s() - t0;
	t0 = now_s();
	rc = sc_simulate(sim, &graph, NULL, &timeline, &err);
	first_s = now_s() - t0;
	t0 = now_s();
	do {
		rc = rc ? rc : sc_simulate(sim, &graph, NULL, &timeline, &err);
		n_runs++;
	} while (!rc && now_s() - t0 < 0.2);
	run_s = (now_s() - t0) / n_runs;
	if (rc)
		fprintf(stderr, "%s: %s\n", shape->name, err.text);
	else
		report(shape->name, &graph,
		       (const double[N_PHASES]){built_s, sealed_s, first_s, run_s});
	sc_graph_release(&graph);
	sc_timeline_release(&timeline);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct shape shapes[] = {
		{"pipeline", build_pipeline},
		{"alone", build_alone},
		{"contended", build_contended},
		{"coupled", build_coupled},
	};
	static const size_t sizes[] = {1000, 10000, 1000000, 10000000};
	const int n_sizes = argc > 1 ? argc - 1 : (int)(sizeof(sizes) / sizeof(sizes[0]));
	struct sc_simulator *sim = sc_simulator_create();
	int rc = 0;

	for (int i = 0; i < n_sizes && !rc; i++) {
		const size_t n = argc > 1 ? strtoul(argv[i + 1], NULL, 10) : sizes[i];

		for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]) && !rc; s++)
			rc = run(&shapes[s], n < 100 ? 100 : n, sim);
	}
	sc_simulator_destroy(sim);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
