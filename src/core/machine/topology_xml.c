/* NCCL's topology file (NCCL_TOPO_DUMP_FILE; src/graph/xml.cc): <system> of <cpu>, in each the tree
 * of <pci>, at its leaves <gpu> with its <nvlink>s (RCCL: <xgmi>s), or <nic> with its <net>s. */
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/units.h"
#include "base/xml.h"
#include "core/machine/topology_priv.h"

enum { MAX_DEPTH = 16, MAX_LINKS = 64, MAX_MBIT_S = 10000000 };
/* NCCL's rates, 1e9 bytes/s (src/graph/topo.h): a PCIe lane by its GT/s, times 80; between CPUs. */
static const struct {
	const char *speed;
	double rate;
} LANES[] = {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}};
static const double AMD_GBPS = 16, INTEL_GBPS = 10, OTHER_GBPS = 6, DEFAULT_PCIE_GBPS = 12;

/* NVLinks are joined at the end: what they lead to stands anywhere. */
struct nvlink {
	int gpu, links;
	const char *at;
	struct sc_xml_attribute target;
	bool to_switch;
};
struct bus {
	const char *id; /* points into the text */
	size_t n;
	int gpu;
};
struct place {
	int node;
	double gbps;
	struct bus bus; /* of a <pci> and what is in it; id is NULL elsewhere */
};
struct reading {
	struct sc_xml xml;
	struct sc_topo_builder *b;
	struct place at[MAX_DEPTH];
	int depth;
	SC_VEC(struct nvlink) nvlinks;
	SC_VEC(struct bus) gpus;
	int switches; /* the node; -1: none yet */
};

static bool value_is(const struct sc_xml_attribute *a, const char *begins)
{
	return a && a->n_value >= strlen(begins) && memcmp(a->value, begins, strlen(begins)) == 0;
}

/* "16.0 GT/s PCIe" times lanes; what says nothing has NCCL's default. */
static int read_pcie(const struct sc_xml *xml, double *gbps)
{
	const struct sc_xml_attribute *speed = sc_xml_get(xml, "link_speed");
	int lanes, rc = sc_xml_int(xml, (struct sc_xml_range){"link_width", 0, 64, true}, &lanes);

	*gbps = DEFAULT_PCIE_GBPS;
	for (size_t i = 0; speed && lanes > 0 && i < sizeof(LANES) / sizeof(LANES[0]); i++) {
		size_t n = strlen(LANES[i].speed);

		if (value_is(speed, LANES[i].speed) && speed->n_value > n &&
		    (speed->value[n] == ' ' || speed->value[n] == '.'))
			*gbps = lanes * LANES[i].rate / 80;
	}
	return rc;
}

static int add_cpu(struct reading *r)
{
	const struct sc_xml_attribute *vendor = sc_xml_get(&r->xml, "vendor");
	double gbps = value_is(vendor, "AuthenticAMD")   ? AMD_GBPS
		      : value_is(vendor, "GenuineIntel") ? INTEL_GBPS
							 : OTHER_GBPS;
	int cpu = sc_topo_add_node(r->b, SC_TOPO_CPU);

	for (int i = 0; i < cpu; i++)
		if (r->b->nodes.at[i].kind == SC_TOPO_CPU)
			sc_topo_join(r->b, i, cpu, gbps, false);
	r->at[r->depth] = (struct place){.node = cpu, .gbps = DEFAULT_PCIE_GBPS};
	return 0;
}

static int add_pci(struct reading *r)
{
	const struct sc_xml_attribute *id = sc_xml_get(&r->xml, "busid");
	const struct place *parent = &r->at[r->depth - 1];
	double gbps;
	int rc = read_pcie(&r->xml, &gbps), node;

	if (rc == 0 && !id)
		rc = sc_xml_fail(&r->xml, r->xml.tag, "a <pci> has a busid");
	if (rc)
		return rc;
	node = sc_topo_add_node(r->b, SC_TOPO_PCIE);
	sc_topo_join(r->b, parent->node, node, gbps, false);
	r->at[r->depth] = (struct place){
		.node = node, .gbps = gbps, .bus = {.id = id->value, .n = id->n_value}};
	return 0;
}

static int add_gpu(struct reading *r)
{
	const struct place *parent = &r->at[r->depth - 1];
	struct bus bus = parent->bus;
	int number, rc;

	rc = sc_xml_int(&r->xml, (struct sc_xml_range){"dev", 0, SC_TOPO_MAX_NUMBER, true},
			&number);
	if (rc == 0 && !bus.id)
		rc = sc_xml_fail(&r->xml, r->xml.tag, "a <gpu> stands in a <pci>");
	if (rc == 0 && r->gpus.n == SC_TOPO_MAX_GPUS)
		rc = sc_xml_fail(&r->xml, r->xml.tag, "too many GPUs");
	if (rc)
		return rc;
	bus.gpu = sc_topo_add_node(r->b, SC_TOPO_GPU);
	r->b->nodes.at[bus.gpu].number = number;
	sc_topo_join(r->b, parent->node, bus.gpu, parent->gbps, false);
	SC_VEC_PUSH(&r->gpus, bus);
	r->at[r->depth] = (struct place){.node = bus.gpu, .gbps = parent->gbps};
	return 0;
}

/* To a switch (class 0x068000) or to a GPU, whose bus is the target; what leads to a CPU is left
 * out. AMD's links lead to GPUs alone, under several classes. */
static int add_nvlink(struct reading *r)
{
	const struct sc_xml_attribute *target = sc_xml_get(&r->xml, "target");
	const struct sc_xml_attribute *class = sc_xml_get(&r->xml, "tclass");
	bool xgmi = sc_xml_is(&r->xml, "xgmi"), to_switch = !xgmi && value_is(class, "0x068000");
	int gpu = r->at[r->depth - 1].node, links;
	int rc = sc_xml_int(&r->xml, (struct sc_xml_range){"count", 1, MAX_LINKS, false}, &links);

	if (rc == 0 && r->b->nodes.at[gpu].kind != SC_TOPO_GPU)
		rc = sc_xml_fail(&r->xml, r->xml.tag, "an <nvlink> or <xgmi> stands in a <gpu>");
	if (rc == 0 && !target)
		rc = sc_xml_fail(&r->xml, r->xml.tag, "an <nvlink> or <xgmi> has a target");
	if (rc || (class && !xgmi && !to_switch && !value_is(class, "0x03")))
		return rc;
	SC_VEC_PUSH(&r->nvlinks, ((struct nvlink){.gpu = gpu,
						  .links = links,
						  .at = r->xml.tag,
						  .target = *target,
						  .to_switch = to_switch}));
	return 0;
}

static int add_net(struct reading *r)
{
	const struct place *parent = &r->at[r->depth - 1];
	const struct sc_xml_attribute *latency = sc_xml_get(&r->xml, "latency");
	char text[32] = "0";
	int mbit_s, node;
	int rc = sc_xml_int(&r->xml, (struct sc_xml_range){"speed", 1, MAX_MBIT_S, false}, &mbit_s);
	double us = 0;

	if (rc)
		return rc;
	if (latency && latency->n_value < sizeof(text)) {
		memcpy(text, latency->value, latency->n_value);
		text[latency->n_value] = '\0';
	}
	if (latency && (!sc_parse_double(text, &us) || us < 0 || us > 1e6))
		return sc_xml_fail(&r->xml, latency->at, "latency: expected microseconds");
	node = sc_topo_add_node(r->b, SC_TOPO_NIC);
	r->b->nodes.at[node].gbit_s = sc_mbit_to_gbit(mbit_s);
	r->b->nodes.at[node].latency_us = us;
	sc_topo_join(r->b, parent->node, node, parent->gbps, false);
	return 0;
}

/* Elements that say something; others (nic, c2c, pcilink) are passed over with what is in them. */
static int add_element(struct reading *r)
{
	static const struct {
		const char *name;
		int (*add)(struct reading *r);
	} known[] = {{"system", NULL},    {"cpu", add_cpu}, {"pci", add_pci},
		     {"gpu", add_gpu},    {"net", add_net}, {"nvlink", add_nvlink},
		     {"xgmi", add_nvlink}};
	size_t i = 0;

	while (i < sizeof(known) / sizeof(known[0]) && !sc_xml_is(&r->xml, known[i].name))
		i++;
	if ((i == 0) != (r->depth == 0))
		return sc_xml_fail(&r->xml, r->xml.tag, "expected one <system> with all in it");
	r->at[r->depth] = r->depth ? r->at[r->depth - 1] : (struct place){.node = -1};
	if (i == sizeof(known) / sizeof(known[0]) || !known[i].add)
		return 0;
	if (known[i].add != add_cpu && r->at[r->depth - 1].node < 0)
		return sc_xml_fail(&r->xml, r->xml.tag, "expected a <cpu> around this");
	if (sc_topo_is_full(r->b))
		return sc_xml_fail(&r->xml, r->xml.tag, "too many elements");
	return known[i].add(r);
}

static int read_elements(struct reading *r)
{
	for (bool begun = false;;) {
		int rc = sc_xml_next(&r->xml);

		if (rc)
			return rc;
		if (!r->xml.name)
			return begun && r->depth == 0
				       ? 0
				       : sc_xml_fail(&r->xml, r->xml.end,
						     "the file ends before </system>");
		if (r->xml.closes) {
			if (r->depth-- == 0)
				return sc_xml_fail(&r->xml, r->xml.tag, "nothing to end here");
			continue;
		}
		if (r->depth == MAX_DEPTH)
			return sc_xml_fail(&r->xml, r->xml.tag, "elements lie too deep");
		if (begun && r->depth == 0)
			return sc_xml_fail(&r->xml, r->xml.tag, "nothing follows </system>");
		begun = true;
		rc = add_element(r);
		if (rc)
			return rc;
		r->depth += !r->xml.is_empty;
	}
}

/* A target that is not in the file is left out, as NCCL does. */
static int join_nvlinks(struct reading *r)
{
	for (size_t i = 0; i < r->nvlinks.n; i++) {
		const struct nvlink *link = &r->nvlinks.at[i];
		double gbps = link->links * SC_TOPO_LINK_GBPS;
		size_t g = 0;

		if (sc_topo_is_full(r->b))
			return sc_xml_fail(&r->xml, link->at, "too many elements");
		if (link->to_switch) {
			if (r->switches < 0)
				r->switches = sc_topo_add_node(r->b, SC_TOPO_NVSWITCH);
			sc_topo_join(r->b, link->gpu, r->switches, gbps, true);
			continue;
		}
		while (g < r->gpus.n && (r->gpus.at[g].n != link->target.n_value ||
					 strncasecmp(r->gpus.at[g].id, link->target.value,
						     link->target.n_value) != 0))
			g++;
		if (g == r->gpus.n)
			continue;
		if (r->gpus.at[g].gpu == link->gpu)
			return sc_xml_fail(&r->xml, link->at, "this link leads to its own GPU");
		SC_VEC_PUSH(&r->b->links,
			    ((struct sc_topo_link){link->gpu, r->gpus.at[g].gpu, gbps, true}));
	}
	return 0;
}

int sc_topo_read_xml(const struct sc_source *source, struct sc_arena *arena,
		     struct sc_topo_builder *b, struct sc_err *err)
{
	struct reading *r = sc_arena_calloc(arena, 1, sizeof(*r));
	int rc;

	r->xml.source = source;
	r->xml.err = err;
	r->xml.at = source->text;
	r->xml.end = source->text + source->n;
	r->b = b;
	r->switches = -1;
	rc = read_elements(r);
	if (rc == 0)
		rc = join_nvlinks(r);
	if (rc == 0 && r->gpus.n == 0)
		rc = sc_xml_fail(&r->xml, r->xml.end, "the file names no GPU");
	SC_VEC_RELEASE(&r->nvlinks);
	SC_VEC_RELEASE(&r->gpus);
	return rc;
}
