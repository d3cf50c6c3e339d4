/* Loads fabric profiles. What the numbers mean stands in fabric.h; how they are used, in
 * models/collective.c. */
#include "core/machine/fabric.h"

#include <string.h>

#include "base/yaml.h"
#include "core/profile/paths.h"

#define LINK(member) offsetof(struct sc_fabric_link, member)
#define NET(member) offsetof(struct sc_fabric_net, member)
#define RAMP(member) offsetof(struct sc_fabric_ramp, member)
#define CURVE(member) offsetof(struct sc_fabric_curve, member)
#define PROFILE(member) offsetof(struct sc_fabric_profile, member)
#define FRAC(key_, at, text)                                                                 \
	{                                                                                    \
		.key = (key_), .type = SC_F_DOUBLE, .offset = (at), .min = 0.01, .max = 1.2, \
		.required = true, .help = (text)                                             \
	}
#define US(key_, at, text)                                                                \
	{                                                                                 \
		.key = (key_), .type = SC_F_DOUBLE, .offset = (at), .min = 0, .max = 1e5, \
		.required = true, .help = (text)                                          \
	}

#define SEARCH(key_, lo)                                                                    \
	{                                                                                   \
		.key = #key_, .type = SC_F_DOUBLE,                                          \
		.offset = offsetof(struct sc_fabric_search, key_), .min = lo, .max = 1e5,   \
		.required = true, .help = "rate that NCCL's search settles on, 1e9 bytes/s" \
	}

static const struct sc_field SEARCH_FIELDS[] = {
	SEARCH(channel_gbps, 1),
	SEARCH(port_gbps, 1),
	SEARCH(max_net_gbps, 1),
	{.key = "nvls_gbps", .type = SC_F_IGNORE, .help = "of older files; not read"},
	{.key = "nvls_net_gbps", .type = SC_F_IGNORE, .help = "of older files; not read"},
	{0},
};
static const struct sc_field LINK_FIELDS[] = {
	{.key = "id", .type = SC_F_STR, .offset = LINK(id), .required = true, .help = "name"},
	{.key = "vendor",
	 .type = SC_F_STR,
	 .offset = LINK(vendor),
	 .required = true,
	 .help = "nvidia, amd"},
	{.key = "capability",
	 .type = SC_F_INT,
	 .offset = LINK(capability),
	 .min = 0,
	 .max = 999,
	 .required = true,
	 .help = "lowest CUDA capability, 80 = 8.0; 0 for AMD"},
	FRAC("eff", LINK(eff), "share of the port's peak that a ring reaches"),
	FRAC("p2p_eff", LINK(p2p_eff), "send/recv, share of eff"),
	{.key = "copy_gbps",
	 .type = SC_F_DOUBLE,
	 .offset = LINK(copy_gbps),
	 .min = 1,
	 .max = 1e5,
	 .required = true,
	 .help = "rate of the chunk that is copied, not forwarded, GB/s"},
	{.key = "nvls_eff",
	 .type = SC_F_DOUBLE,
	 .offset = LINK(nvls_eff),
	 .min = 0,
	 .max = 1.2,
	 .required = true,
	 .help = "in-switch reduction, share of the port's peak; 0 = none"},
	US("latency_us", LINK(latency_us), "of every collective, before its first hop, us"),
	US("hop_us", LINK(hop_us), "of a hop inside the node, small messages, us"),
	US("simple_us", LINK(simple_us), "added by the bandwidth protocol, us"),
	{.key = "search",
	 .type = SC_F_STRUCT,
	 .offset = LINK(search),
	 .sub = SEARCH_FIELDS,
	 .required = true,
	 .help = "what NCCL takes links of this generation for"},
	{0},
};
static const struct sc_field NET_FIELDS[] = {
	{.key = "kind",
	 .type = SC_F_STR,
	 .offset = NET(kind),
	 .required = true,
	 .help = "cluster.fabric"},
	FRAC("eff", NET(eff), "share of the NICs' line rate"),
	FRAC("tree_eff", NET(tree_eff), "trees over more than two nodes, share of eff"),
	FRAC("p2p_eff", NET(p2p_eff), "one send/recv, share of eff"),
	FRAC("a2a_eff", NET(a2a_eff), "all-to-all, share of eff"),
	FRAC("sharp_eff", NET(sharp_eff), "all-reduce where the switches add, share of eff"),
	US("latency_us", NET(latency_us), "of a hop, above NCCL's constant, us"),
	US("simple_us", NET(simple_us), "of a hop, large messages, above small ones, us"),
	{.key = "simple_below",
	 .type = SC_F_INT,
	 .offset = NET(simple_below),
	 .min = 0,
	 .max = 999,
	 .help = "CUDA capability of GPUs that get no low-latency protocols; default: 0"},
	{0},
};
static const struct sc_field RAMP_FIELDS[] = {
	{.key = "nvls_slope",
	 .type = SC_F_DOUBLE,
	 .offset = RAMP(nvls_slope),
	 .min = 1.01,
	 .max = 100,
	 .required = true,
	 .help = "cost of a byte in small messages over large ones"},
	{.key = "net_slope",
	 .type = SC_F_DOUBLE,
	 .offset = RAMP(net_slope),
	 .min = 1,
	 .max = 1e4,
	 .required = true,
	 .help = "of a hop between nodes over its bytes at the NICs' rate, small messages"},
	FRAC("ring_net_frac", RAMP(ring_net_frac), "of a network hop, what a ring's step shows"),
	US("nvls_latency_us", RAMP(nvls_latency_us), "in-switch reduction, small, us"),
	US("nvls_simple_us", RAMP(nvls_simple_us), "in-switch reduction, added when large, us"),
	US("p2p_latency_us", RAMP(p2p_latency_us), "send/recv, above the links' latency, us"),
	US("peer_us", RAMP(peer_us), "all-to-all, each peer on another node, us"),
	US("local_peer_us", RAMP(local_peer_us), "all-to-all, each peer on the same node, us"),
	FRAC("pcie_eff", RAMP(pcie_eff), "share of the PCIe peak between GPUs"),
	{.key = "host_path_gbps",
	 .type = SC_F_DOUBLE,
	 .offset = RAMP(host_path_gbps),
	 .min = 0,
	 .max = 1e6,
	 .help = "all-to-all of GPUs without links, a GPU's rate, 1e9 bytes/s; 0 = no limit"},
	{0},
};
#define WALK(member) offsetof(struct sc_fabric_walk, member)
#define MOVED(key_, lo, hi, text)                                                            \
	{                                                                                    \
		.key = #key_, .type = SC_F_DOUBLE,                                           \
		.offset = offsetof(struct sc_fabric_walk_proto, key_), .min = lo, .max = hi, \
		.required = true, .help = (text)                                             \
	}
static const struct sc_field WALK_PROTO_FIELDS[] = {
	MOVED(block_gbps, 0.01, 1e4, "a thread block's rate, 1e9 bytes/s"),
	MOVED(step_us, 0, 1e3, "each primitive, and until the peer sees its first data, us"),
	MOVED(base_us, 0, 1e4, "each collective, us"),
	MOVED(tile_bytes, 16, 1e9, "of a chunk that a primitive moves"),
	MOVED(wire_factor, 1, 4, "bytes on the wire for each of data"),
	{0},
};
#define WALK_PROTO(key_, i, text)                                            \
	{                                                                    \
		.key = key_, .type = SC_F_STRUCT, .offset = WALK(protos[i]), \
		.sub = WALK_PROTO_FIELDS, .required = true, .help = text     \
	}
#define WALK_RATE(key_, lo, text)                                                               \
	{                                                                                       \
		.key = #key_, .type = SC_F_DOUBLE, .offset = WALK(key_), .min = lo, .max = 1e5, \
		.required = true, .help = text                                                  \
	}
static const struct sc_field WALK_FIELDS[] = {
	{.key = "links",
	 .type = SC_F_STR,
	 .offset = WALK(links),
	 .required = true,
	 .help = "their id"},
	WALK_RATE(link_gbps, 0, "between two GPUs, 1e9 bytes/s; 0 = no limit but the ports'"),
	WALK_RATE(port_gbps, 0, "out of a GPU, 1e9 bytes/s"),
	WALK_RATE(local_gbps, 0.01, "copies and reductions of a thread block, 1e9 bytes/s"),
	WALK_PROTO("ll", 0, "protocol LL"),
	WALK_PROTO("ll128", 1, "protocol LL128"),
	WALK_PROTO("simple", 2, "protocol Simple"),
	{0},
};
static const struct sc_field CURVE_FIELDS[] = {
	{.key = "collective",
	 .type = SC_F_STR,
	 .offset = CURVE(collective),
	 .required = true,
	 .help = "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv"},
	{.key = "ranks",
	 .type = SC_F_INT,
	 .offset = CURVE(ranks),
	 .min = 2,
	 .max = 1 << 20,
	 .required = true,
	 .help = "of the collective"},
	{.key = "nodes",
	 .type = SC_F_INT,
	 .offset = CURVE(nodes),
	 .min = 1,
	 .max = 1 << 20,
	 .required = true,
	 .help = "that they are on"},
	{.key = "bytes",
	 .type = SC_F_DOUBLES,
	 .offset = CURVE(bytes),
	 .min = 1,
	 .max = 1e15,
	 .required = true,
	 .help = "sizes, rising"},
	{.key = "time_us",
	 .type = SC_F_DOUBLES,
	 .offset = CURVE(time_us),
	 .min = 1e-3,
	 .max = 1e12,
	 .required = true,
	 .help = "times, never falling, us"},
	{0},
};
const struct sc_field sc_fabric_fields[] = {
	{.key = "schema", .type = SC_F_IGNORE},
	{.key = "source", .type = SC_F_IGNORE},
	{.key = "links",
	 .type = SC_F_STRUCTS,
	 .offset = PROFILE(links),
	 .required = true,
	 .sub = LINK_FIELDS,
	 .elem_bytes = sizeof(struct sc_fabric_link),
	 .help = "inside a node, by GPU generation"},
	{.key = "nets",
	 .type = SC_F_STRUCTS,
	 .offset = PROFILE(nets),
	 .required = true,
	 .sub = NET_FIELDS,
	 .elem_bytes = sizeof(struct sc_fabric_net),
	 .help = "between nodes, by fabric kind; the first is the default"},
	{.key = "ramp",
	 .type = SC_F_STRUCT,
	 .offset = PROFILE(ramp),
	 .required = true,
	 .sub = RAMP_FIELDS,
	 .help = "latencies and the way to full rate"},
	{.key = "walks",
	 .type = SC_F_STRUCTS,
	 .offset = PROFILE(walks),
	 .sub = WALK_FIELDS,
	 .elem_bytes = sizeof(struct sc_fabric_walk),
	 .help = "rates of thread blocks, for algorithm files"},
	{.key = "curves",
	 .type = SC_F_STRUCTS,
	 .offset = PROFILE(curves),
	 .sub = CURVE_FIELDS,
	 .elem_bytes = sizeof(struct sc_fabric_curve),
	 .help = "measured times of one machine"},
	{.key = "gpu", .type = SC_F_STR, .offset = PROFILE(gpu), .help = "that the curves are of"},
	FRAC("spread_frac", PROFILE(spread_frac), "residual spread of times"),
	{0},
};
static bool is_rising(const struct sc_doubles *x, bool strictly)
{
	for (size_t i = 1; i < x->n; i++)
		if (x->at[i] < x->at[i - 1] || (strictly && !(x->at[i] > x->at[i - 1])))
			return false;
	return x->n > 0;
}

static int check_curves(const struct sc_fabric_profile *profile, const char *path,
			const struct sc_yaml *root, struct sc_err *err)
{
	const struct sc_fabric_curve *curve = profile->curves.at;

	for (size_t i = 0; i < profile->curves.n; i++, curve++)
		if (curve->bytes.n != curve->time_us.n || curve->nodes > curve->ranks ||
		    !is_rising(&curve->bytes, true) || !is_rising(&curve->time_us, false))
			return sc_err_at(err, SC_EVALUE, path, root->line, root->column,
					 "curves: number %zu (%.32s of %lld ranks) needs as many "
					 "time_us as bytes, both rising, and no more nodes than "
					 "ranks",
					 i + 1, curve->collective, (long long)curve->ranks);
	return 0;
}

static bool is_path(const char *id)
{
	size_t n = strlen(id), n_end = strlen(".yaml");

	return n > n_end && strcmp(id + n - n_end, ".yaml") == 0;
}

static const char *fabric_ref(const char *id, struct sc_arena *arena)
{
	return is_path(id) ? id : sc_arena_printf(arena, "fabrics/%s.yaml", id);
}

bool sc_fabric_is_file(const struct sc_fabric_profile *standard, const char *fabric,
		       struct sc_arena *scratch)
{
	const struct sc_fabric_net *nets = standard->nets.at;
	struct sc_arena_mark mark = sc_arena_mark(scratch);
	const char *path;
	bool found;

	for (size_t i = 0; i < standard->nets.n; i++)
		if (strcmp(nets[i].kind, fabric) == 0)
			return false;
	found = is_path(fabric) ||
		(*fabric && !strchr(fabric, '/') &&
		 sc_config_path((struct sc_config_ref){.at = fabric_ref(fabric, scratch)}, scratch,
				&path, NULL) == 0);
	sc_arena_rewind(scratch, mark);
	return found;
}

int sc_fabric_profile_load(const char *id, struct sc_arena *arena, struct sc_fabric_profile *out,
			   struct sc_err *err)
{
	struct sc_fabric_profile profile = {0};
	struct sc_topology *cube_mesh = sc_arena_calloc(arena, 1, sizeof(*cube_mesh));
	const char *ref = fabric_ref(id, arena), *path;
	struct sc_yaml *root;
	int rc = sc_config_path((struct sc_config_ref){.at = ref}, arena, &path, err);

	if (!rc)
		rc = sc_yaml_load(path, arena, &root, err);
	if (!rc)
		rc = sc_yaml_decode(root, sc_fabric_fields, &profile, arena, NULL, err);
	if (rc)
		return rc;
	if (!profile.links.n || !profile.nets.n)
		return sc_err_at(err, SC_EVALUE, path, root->line, root->column,
				 "links and nets must not be empty");
	sc_topology_cube_mesh(SC_TOPO_LINK_GBPS, arena, cube_mesh);
	sc_wiring_of(cube_mesh, &profile.cube_mesh);
	rc = check_curves(&profile, path, root, err);
	if (rc == 0)
		*out = profile;
	return rc;
}

const struct sc_fabric_link *sc_fabric_link_get(const struct sc_fabric_profile *profile,
						const char *vendor, int64_t capability)
{
	const struct sc_fabric_link *links = profile->links.at, *best = NULL;

	for (size_t i = 0; i < profile->links.n; i++) {
		if (vendor && strcmp(links[i].vendor, vendor) != 0)
			continue;
		if (!best || links[i].capability <= capability)
			best = &links[i];
	}
	return best ? best : &links[0];
}

const struct sc_fabric_net *sc_fabric_net_get(const struct sc_fabric_profile *profile,
					      const char *kind)
{
	const struct sc_fabric_net *nets = profile->nets.at;

	for (size_t i = 0; kind && i < profile->nets.n; i++)
		if (strcmp(nets[i].kind, kind) == 0)
			return &nets[i];
	return &nets[0];
}
