/* Graphs of a node: rings that are searched on them, ports, NICs that share PCIe. */
#include "arena_fixture.h"
#include "base/rng.h"
#include "core/machine/topology_priv.h"
#include "runner.h"

static double total(const struct sc_topology *t, int n)
{
	int gpus[SC_TOPO_MAX_GPUS];
	struct sc_topo_rings rings;

	for (int i = 0; i < n; i++)
		gpus[i] = i;
	rings = sc_topology_rings(t, gpus, n, NULL);
	return rings.n * rings.gbps;
}

/* Links that rings over the first n use, of six: what vTrain measured on V100 is 22.5, 85, 46 and
 * 134 GB/s. */
static const struct {
	int n;
	double lines;
} CUBE[] = {{2, 1}, {3, 2}, {4, 4}, {5, 2}, {6, 2}, {7, 4}, {8, 6}};

FIXTURE(arena_begin, arena_end)

LOOP_TEST(cube_mesh, N_OF(CUBE))
{
	struct sc_topology t;

	sc_topology_cube_mesh(25, &arena, &t);
	ck_assert_double_eq_tol(sc_topology_port_gbps(&t), 150, 1e-9);
	ck_assert_double_eq_tol(total(&t, CUBE[_i].n), 25 * CUBE[_i].lines, 1e-9);
}

/* What is known of it without a search is what the search finds. */
LOOP_TEST(cube_mesh_known, N_OF(CUBE))
{
	struct sc_topology t;
	struct sc_wiring known, found;

	sc_topology_cube_mesh(25, &arena, &t);
	sc_wiring_of(&t, &found);
	sc_wiring_of_cube_mesh(25, &arena, &known);
	ck_assert(known.share[CUBE[_i].n] == found.share[CUBE[_i].n]);
	ck_assert(known.pcie_gbps[CUBE[_i].n] == found.pcie_gbps[CUBE[_i].n]);
	ck_assert_int_eq(known.neighbours, found.neighbours);
	ck_assert(known.port_links == found.port_links && known.is_mesh == found.is_mesh);
}

/* Any subset: those of one square are like those of the other. */
TEST(subsets)
{
	struct sc_topology t;
	struct sc_topo_rings low, high;

	sc_topology_cube_mesh(25, &arena, &t);
	low = sc_topology_rings(&t, (int[]){0, 1, 2, 3}, 4, NULL);
	high = sc_topology_rings(&t, (int[]){7, 5, 4, 6}, 4, NULL);
	ck_assert_double_eq_tol(low.n * low.gbps, high.n * high.gbps, 1e-9);
	ck_assert_int_eq(low.pcie, 0);
}

static void random_graph(struct sc_rng *rng, int n, double scale, struct sc_topology *out)
{
	struct sc_topo_builder b = {.nodes = {.n = 0}};

	for (int i = 0; i < n; i++)
		SC_VEC_PUSH(&b.nodes, ((struct sc_topo_node){.kind = SC_TOPO_GPU, .number = i}));
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			if (sc_rng_below(rng, 3) > 0)
				sc_topo_join(&b, i, j, scale * (double)(1 + sc_rng_below(rng, 3)),
					     true);
	sc_topo_take(&b, &arena, out);
}

/* Rings never exceed the least port, and follow the links' rate. */
LOOP_TEST(rings_within_ports, 60)
{
	const int n = 3 + _i % 6;
	struct sc_topology t, faster;
	struct sc_rng rng;
	double least = 1e9, got;

	sc_rng_init(&rng, 7 + (uint64_t)_i);
	random_graph(&rng, n, 10, &t);
	sc_rng_init(&rng, 7 + (uint64_t)_i);
	random_graph(&rng, n, 20, &faster);
	for (int g = 0; g < n; g++) {
		double port = 0;

		for (int l = 0; l < t.n_links; l++)
			port += t.links[l].from == g ? t.links[l].gbps : 0;
		least = port < least ? port : least;
	}
	got = total(&t, n);
	ck_assert_double_le(got, least + 1e-9);
	ck_assert_double_eq_tol(total(&faster, n), 2 * got, 1e-6);
}

static const char NODE[] =
	"<system version='1'><cpu numaid='0' vendor='AuthenticAMD'>"
	"<pci busid='b' class='0x060400' link_speed='8.0 GT/s PCIe' link_width='16'>"
	"<pci busid='g1' link_speed='8 GT/s' link_width='16'><gpu dev='1'>"
	"<nvlink target='g0' count='4' tclass='0x030200'/></gpu></pci>"
	"<pci busid='g0' link_speed='8 GT/s' link_width='16'><gpu dev='0'>"
	"<nvlink target='g1' count='4' tclass='0x030200'/></gpu></pci>"
	"<pci busid='n0' link_speed='8 GT/s' link_width='16'><nic><net speed='200000' "
	"latency='3'/></nic></pci>"
	"</pci></cpu></system>";

/* Generation 3 of PCIe is less than the NIC's 25 GB/s; its links are two, one each way. */
TEST(nic_behind_pcie)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_topology t;
	struct sc_wiring w;

	ck_assert_int_eq(sc_topology_parse(&(struct sc_source){NODE, strlen(NODE), "n.xml"}, &arena,
					   &t, &err),
			 0);
	ck_assert_int_eq(t.n_gpus, 2);
	ck_assert_int_eq(t.n_nics, 1);
	sc_wiring_of(&t, &w);
	ck_assert_double_eq_tol(w.port_links, 4, 1e-9);
	ck_assert_double_eq_tol(w.nic_gbit_s, 96, 1e-9);
	ck_assert_double_eq_tol(w.nic_latency_us, 3, 1e-9);
	ck_assert_double_eq_tol(sc_wiring_share(&w, 2), 1, 1e-9);
}

static void wiring_of(const char *text, const char *file, struct sc_wiring *out)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_topology t;

	ck_assert_int_eq(
		sc_topology_parse(&(struct sc_source){text, strlen(text), file}, &arena, &t, &err),
		0);
	sc_wiring_of(&t, out);
}

/* RCCL names links of its own, under the class of an accelerator; the case of a bus does not count;
 * what leads to a GPU that is not in the file is left out. */
LOOP_TEST(links_by_name, 5)
{
	static const char *const links[] = {
		"<nvlink target='0B' count='4'/>",
		"<nvlink target='0b' count='4' tclass='0x0302'/>",
		"<xgmi target='0b' count='4' tclass='0x038000'/>",
		"<xgmi target='0b' count='4' tclass='0x120000'/>",
		"<nvlink target='0b' count='4'/><nvlink target='0c' count='9'/>"};
	struct sc_wiring w;

	wiring_of(sc_arena_printf(&arena,
				  "<system><cpu><pci busid='0a'><gpu dev='0'>%s</gpu></pci>"
				  "<pci busid='0b'><gpu dev='1'><nvlink target='0a' count='4'/>"
				  "</gpu></pci></cpu></system>",
				  links[_i]),
		  "x.xml", &w);
	ck_assert_int_eq(w.neighbours, 1);
	ck_assert_double_eq_tol(w.port_links, 4, 1e-9);
	ck_assert_double_eq_tol(w.share[2], 1, 1e-9);
}

/* As many NICs and links as a file may have: a search each. */
TEST(many_nics)
{
	enum { GPUS = 128, NICS = 800 };
	struct sc_topo_builder b = {.nodes = {.n = 0}};
	struct sc_topology t;
	struct sc_wiring w;
	int cpu = sc_topo_add_node(&b, SC_TOPO_CPU);

	for (int i = 0; i < GPUS; i++) {
		int gpu = sc_topo_add_node(&b, SC_TOPO_GPU);

		b.nodes.at[gpu].number = i;
		for (int j = 0; j <= i; j++)
			sc_topo_join(&b, gpu, j == i ? cpu : gpu - 1 - j, 16, j < i);
	}
	for (int i = 0; i < NICS; i++) {
		int nic = sc_topo_add_node(&b, SC_TOPO_NIC);

		b.nodes.at[nic].gbit_s = 100;
		sc_topo_join(&b, nic, cpu, 16, false);
	}
	sc_topo_take(&b, &arena, &t);
	sc_wiring_of(&t, &w);
	ck_assert_double_eq_tol(w.nic_gbit_s, 8 * 16.0 / NICS, 1e-9);
}

/* Two of four without NVLink between their pairs: rings through all go over PCIe. */
/* Links that are wider one way stay so, and a ring is as fast as the narrower; an unknown cell:
 * tests/invalid. */
TEST(one_way_wider)
{
	static const char text[] = "     GPU0 GPU1\nGPU0  X   NV4\nGPU1 NV2   X\n";
	const struct sc_source source = {text, sizeof(text) - 1, "x.txt"};
	double gbps[2] = {0};
	struct sc_topology t;
	struct sc_err err = {0};

	ck_assert_msg(sc_topology_parse(&source, &arena, &t, &err) == 0, "%s", err.text);
	for (int l = 0; l < t.n_links; l++)
		if (t.links[l].nvlink)
			gbps[t.links[l].from] += t.links[l].gbps;
	ck_assert_double_eq_tol(gbps[0], 4 * SC_TOPO_LINK_GBPS, 1e-9);
	ck_assert_double_eq_tol(gbps[1], 2 * SC_TOPO_LINK_GBPS, 1e-9);
	ck_assert_double_le(total(&t, 2), 2 * SC_TOPO_LINK_GBPS * (1 + 1e-9));
}

/* Two on one link get half of it each, and a third on another link all it asks for; one that has
 * less leaves more to the other; what is lost by none is not taken from anyone. */
TEST(links_are_shared)
{
	struct sc_topo_link links[] = {{0, 1, 100, true}, {2, 3, 100, true}};
	const struct sc_topology t = {.links = links, .n_nodes = 4, .n_links = 2};
	double a[] = {100, 0}, b[] = {100, 0}, c[] = {0, 100}, both[] = {100, 100}, share[3];
	const double *apart[] = {a, b, c}, *across[] = {a, both, c}, *few[] = {a, c};

	sc_topology_share(&t, apart, 3, share);
	ck_assert_double_eq_tol(share[0], 0.5, 1e-9);
	ck_assert_double_eq_tol(share[1], 0.5, 1e-9);
	ck_assert_double_eq_tol(share[2], 1, 1e-9);
	links[1].gbps = 60; /* its two have 30 each, so the first may have 70 of 100 */
	sc_topology_share(&t, across, 3, share);
	ck_assert_double_eq_tol(share[0], 0.7, 1e-9);
	ck_assert_double_eq_tol(share[1], 0.3, 1e-9);
	ck_assert_double_eq_tol(share[2], 0.3, 1e-9);
	links[1].gbps = 200;
	sc_topology_share(&t, few, 2, share);
	ck_assert_double_eq_tol(share[0] + share[1], 2, 1e-9);
}

/* What rings put on links is what they move, and no link has more than it carries. */
TEST(rings_load_links)
{
	struct sc_topology t;
	struct sc_topo_rings rings;
	double *load, out = 0;

	sc_topology_cube_mesh(25, &arena, &t);
	load = sc_arena_calloc(&arena, (size_t)t.n_links, sizeof(*load));
	rings = sc_topology_rings(&t, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, load);
	for (int l = 0; l < t.n_links; l++) {
		ck_assert_double_le(load[l], t.links[l].gbps * (1 + 1e-9));
		out += t.links[l].from == 0 ? load[l] : 0;
	}
	ck_assert_double_eq_tol(out, rings.n * rings.gbps, 1e-9);
}

TEST(pairs)
{
	static const char text[] = "\033[4m\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\033[0m\n"
				   "GPU0\t X \tNV4\tSYS\tSYS\t0\nGPU1\tNV4\t X \tSYS\tSYS\t0\n"
				   "GPU2\tSYS\tSYS\t X \tNV4\t0\nGPU3\tSYS\tSYS\tNV4\t X \t0\n";
	struct sc_wiring w;

	wiring_of(text, "m.txt", &w);
	ck_assert_double_eq_tol(w.share[2], 1, 1e-9);
	ck_assert_double_eq_tol(w.share[4], 0, 1e-9);
	ck_assert_double_gt(w.pcie_gbps[4], 1);
	ck_assert_int_eq(w.is_mesh || w.has_switch, 0);
}
