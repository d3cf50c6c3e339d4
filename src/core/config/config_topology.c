/* Reads cluster.topology, a file that says how a node is wired. A graph becomes what the model of
 * collectives takes of it; ASTRA-sim's network YAML has no graph, and fills what it says of nodes
 * and NICs, or a torus. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "core/config/config_priv.h"

enum { MAX_DIMS = 8, MAX_FILE_BYTES = 16 << 20 };
#define MAX_NS 1e9

/* ---- ASTRA-sim: topology, npus_count, bandwidth (1e9 bytes/s), latency (ns), innermost dimension
 * first ---- */

static const struct sc_name BLOCK_NAMES[] = {
	{"Ring", 0}, {"FullyConnected", 1}, {"Switch", 2}, {NULL, 0}};
enum block { BLOCK_RING, BLOCK_FULL, BLOCK_SWITCH };

struct astra {
	struct sc_ints npus_count;
	struct sc_doubles bandwidth, latency;
};
static const struct sc_field ASTRA_FIELDS[] = {
	{.key = "topology", .type = SC_F_IGNORE, .required = true},
	SC_FIELD_IN(INTS, astra, npus_count, 1, SC_MAX_GPUS, NULL, .required = true),
	SC_FIELD_IN(DOUBLES, astra, bandwidth, 1e-3, 1e6, NULL, .required = true),
	SC_FIELD_IN(DOUBLES, astra, latency, 0, MAX_NS, NULL, .required = true),
	{0},
};

static int fail_at(const struct sc_yaml *at, const char *text, struct sc_err *err)
{
	return sc_err_at(err, SC_EVALUE, SC_AT(at), "%s", text);
}

static int read_blocks(const struct sc_yaml *list, enum block *out, size_t *n, struct sc_err *err)
{
	if (list->kind != SC_YAML_SEQ || list->n_children == 0 || list->n_children > MAX_DIMS)
		return fail_at(list, "topology: expected a list of 1 to 8 dimensions", err);
	*n = 0;
	for (const struct sc_yaml *at = list->child; at; at = at->next) {
		const struct sc_name *name = BLOCK_NAMES;

		while (name->name && (at->kind != SC_YAML_SCALAR || strcmp(name->name, at->text)))
			name++;
		if (!name->name)
			return fail_at(at, "topology: expected Ring, FullyConnected or Switch",
				       err);
		out[(*n)++] = (enum block)name->value;
	}
	return 0;
}

/* Fills in a key; a value that the config says stays. */
static void fill_int(int64_t *key, int64_t value)
{
	if (*key == SC_NOT_GIVEN)
		*key = value;
}

static void fill_double(double *key, double value)
{
	if (*key < 0)
		*key = value;
}

/* One dimension is a node, a second one joins nodes, a NIC for each GPU. */
static void take_nodes(const struct astra *a, const enum block *blocks, struct sc_cluster *out)
{
	bool networked = a->npus_count.n > 1;

	fill_int(&out->gpus_per_node, a->npus_count.at[0]);
	fill_int(&out->scale_up_gpus, a->npus_count.at[0]);
	fill_double(&out->link_gbps, a->bandwidth.at[0]);
	if (out->links == SC_LINKS_USUAL)
		out->links = blocks[0] == BLOCK_SWITCH ? SC_LINKS_SWITCH : SC_LINKS_MESH;
	fill_int(&out->nics_per_node, networked ? a->npus_count.at[0] : 0);
	if (!networked)
		return;
	fill_double(&out->nic_gbit_s, a->bandwidth.at[1] / sc_gbit_to_gbps(1));
	fill_double(&out->nic_latency_us, a->latency.at[1] / (double)SC_NS_PER_US);
}

static int take_astra(const struct sc_source *source, struct sc_arena *arena,
		      struct sc_cluster *out, struct sc_err *err)
{
	enum block blocks[MAX_DIMS];
	struct astra a = {.npus_count = {.n = 0}};
	struct sc_yaml *root;
	size_t n = 0, rings = 0;
	int rc = sc_yaml_parse(source, arena, &root, err);

	if (rc == 0)
		rc = sc_yaml_decode(root, ASTRA_FIELDS, &a, arena, NULL, err);
	if (rc == 0)
		rc = read_blocks(sc_yaml_get(root, "topology"), blocks, &n, err);
	if (rc)
		return rc;
	if (a.npus_count.n != n || a.bandwidth.n != n || a.latency.n != n)
		return fail_at(root,
			       "topology, npus_count, bandwidth and latency have one value for "
			       "each dimension",
			       err);
	for (size_t d = 0; d < n; d++)
		rings += blocks[d] == BLOCK_RING && a.npus_count.at[d] > 2;
	if (rings == n) {
		double *us = sc_arena_alloc(arena, a.latency.n * sizeof(*us));

		for (size_t d = 0; d < a.latency.n; d++)
			us[d] = a.latency.at[d] / (double)SC_NS_PER_US;
		out->torus.dims = a.npus_count;
		out->torus.link_gbps = a.bandwidth;
		out->torus.hop_us = (struct sc_doubles){us, a.latency.n};
		out->gpus_per_node = 1;
		for (size_t d = 0; d < a.npus_count.n && out->gpus_per_node < SC_MAX_GPUS; d++)
			out->gpus_per_node *= a.npus_count.at[d];
		return 0;
	}
	if (n > 2 || rings > 0)
		return fail_at(root,
			       "only rings have three dimensions or more, and they are not mixed "
			       "with others here",
			       err);
	take_nodes(&a, blocks, out);
	return 0;
}

/* ---- graphs ---- */

static int take_graph(const struct sc_source *source, struct sc_arena *arena,
		      struct sc_cluster *out, struct sc_err *err)
{
	struct sc_wiring *wiring = sc_arena_calloc(arena, 1, sizeof(*wiring));
	struct sc_topology *topology = sc_arena_calloc(arena, 1, sizeof(*topology));
	int rc = sc_topology_parse(source, arena, topology, err);

	if (rc)
		return rc;
	sc_wiring_of(topology, wiring);
	out->wiring = wiring;
	return 0;
}

int sc_cluster_parse_topology(const struct sc_source *source, struct sc_arena *arena,
			      struct sc_cluster *out, struct sc_err *err)
{
	const char *dot = strrchr(source->file, '.');

	return (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0))
		       ? take_astra(source, arena, out, err)
		       : take_graph(source, arena, out, err);
}

int sc_config_load_topology(struct sc_config *config, const char *path, struct sc_arena *arena,
			    struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, MAX_FILE_BYTES, &source, err);

	if (rc == 0)
		rc = sc_cluster_parse_topology(&source, arena, &config->cluster, err);
	sc_source_release(&source);
	return rc;
}

void sc_config_take_wiring(struct sc_cluster *cluster, const struct sc_device *device)
{
	const struct sc_wiring *w = cluster->wiring;

	if (!w)
		return;
	fill_int(&cluster->gpus_per_node, w->n_gpus);
	fill_double(&cluster->link_gbps,
		    w->port_links * (device->nvlink_link_gbps > 0 ? device->nvlink_link_gbps
								  : SC_TOPO_LINK_GBPS));
	if (w->n_nics > 0) {
		fill_int(&cluster->nics_per_node, w->n_nics);
		fill_double(&cluster->nic_gbit_s, w->nic_gbit_s);
	}
	if (w->nic_latency_us > 0)
		fill_double(&cluster->nic_latency_us, w->nic_latency_us);
}
