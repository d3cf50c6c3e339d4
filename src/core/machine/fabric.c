/* Loads fabric profiles. What the numbers mean stands in fabric.h; how they are used, in
 * models/collective/collective_times.c. */
#include "core/machine/fabric.h"

#include <string.h>

#include "base/file.h"
#include "base/yaml.h"
#include "core/profile/paths.h"

#define FRAC(struct_, member, text) \
	SC_FIELD_IN(DOUBLE, struct_, member, 0.01, 1.2, text, .required = true)
#define US(struct_, member, text) \
	SC_FIELD_IN(DOUBLE, struct_, member, 0, 1e5, text, .required = true)

#define SEARCH(member, lo)                                     \
	SC_FIELD_IN(DOUBLE, sc_fabric_search, member, lo, 1e5, \
		    "rate that NCCL's search settles on, 1e9 bytes/s", .required = true)

static const struct sc_field SEARCH_FIELDS[] = {
	SEARCH(channel_gbps, 1),
	SEARCH(port_gbps, 1),
	SEARCH(max_net_gbps, 1),
	{0},
};
static const struct sc_field LINK_FIELDS[] = {
	SC_FIELD(STR, sc_fabric_link, id, "name", .required = true),
	SC_FIELD(STR, sc_fabric_link, vendor, "nvidia, amd", .required = true),
	SC_FIELD_IN(INT, sc_fabric_link, capability, 0, 999,
		    "lowest CUDA capability, 80 = 8.0; 0 for AMD", .required = true),
	FRAC(sc_fabric_link, eff, "share of the port's peak that a ring reaches"),
	FRAC(sc_fabric_link, p2p_eff, "send/recv, share of eff"),
	SC_FIELD_IN(DOUBLE, sc_fabric_link, copy_gbps, 1, 1e5,
		    "rate of the chunk that is copied, not forwarded, GB/s", .required = true),
	SC_FIELD_IN(DOUBLE, sc_fabric_link, nvls_eff, 0, 1.2,
		    "in-switch reduction, share of the port's peak; 0 = none", .required = true),
	US(sc_fabric_link, latency_us, "of every collective, before its first hop, us"),
	US(sc_fabric_link, hop_us, "of a hop inside the node, small messages, us"),
	US(sc_fabric_link, simple_us, "added by the bandwidth protocol, us"),
	SC_FIELD_MAP(sc_fabric_link, search, SEARCH_FIELDS,
		     "what NCCL takes links of this generation for", .required = true),
	{0},
};
static const struct sc_field NET_FIELDS[] = {
	SC_FIELD(STR, sc_fabric_net, kind, "cluster.fabric", .required = true),
	FRAC(sc_fabric_net, eff, "share of the NICs' line rate"),
	FRAC(sc_fabric_net, tree_eff, "trees over more than two nodes, share of eff"),
	FRAC(sc_fabric_net, p2p_eff, "one send/recv, share of eff"),
	FRAC(sc_fabric_net, a2a_eff, "all-to-all, share of eff"),
	FRAC(sc_fabric_net, sharp_eff, "all-reduce where the switches add, share of eff"),
	US(sc_fabric_net, latency_us, "of a hop, above NCCL's constant, us"),
	US(sc_fabric_net, simple_us, "of a hop, large messages, above small ones, us"),
	SC_FIELD_IN(INT, sc_fabric_net, simple_below, 0, 999,
		    "CUDA capability of GPUs that get no low-latency protocols; default: 0"),
	{0},
};
static const struct sc_field RAMP_FIELDS[] = {
	SC_FIELD_IN(DOUBLE, sc_fabric_ramp, nvls_slope, 1.01, 100,
		    "cost of a byte in small messages over large ones", .required = true),
	SC_FIELD_IN(DOUBLE, sc_fabric_ramp, net_slope, 1, 1e4,
		    "of a hop between nodes over its bytes at the NICs' rate, small messages",
		    .required = true),
	FRAC(sc_fabric_ramp, ring_net_frac, "of a network hop, what a ring's step shows"),
	US(sc_fabric_ramp, nvls_latency_us, "in-switch reduction, small, us"),
	US(sc_fabric_ramp, nvls_simple_us, "in-switch reduction, added when large, us"),
	US(sc_fabric_ramp, p2p_latency_us, "send/recv, above the links' latency, us"),
	US(sc_fabric_ramp, peer_us, "all-to-all, each peer on another node, us"),
	US(sc_fabric_ramp, local_peer_us, "all-to-all, each peer on the same node, us"),
	SC_FIELD_IN(DOUBLE, sc_fabric_ramp, peer_fill_us, 0, 1e5,
		    "all-to-all, of each peer on another node, long messages, us; default: 0"),
	FRAC(sc_fabric_ramp, pcie_eff, "share of the PCIe peak between GPUs"),
	SC_FIELD_IN(DOUBLE, sc_fabric_ramp, p2p_channel_gbps, 0, 1e6,
		    "send/recv over links, of each channel, 1e9 bytes/s; 0 = no limit"),
	SC_FIELD_IN(DOUBLE, sc_fabric_ramp, host_path_gbps, 0, 1e6,
		    "all-to-all of GPUs without links, a GPU's rate, 1e9 bytes/s; 0 = no limit"),
	{0},
};
#define MOVED(member, lo, hi, text) \
	SC_FIELD_IN(DOUBLE, sc_fabric_walk_proto, member, lo, hi, text, .required = true)
static const struct sc_field WALK_PROTO_FIELDS[] = {
	MOVED(block_gbps, 0.01, 1e4, "a thread block's rate, 1e9 bytes/s"),
	MOVED(step_us, 0, 1e3, "each primitive, and until the peer sees its first data, us"),
	MOVED(base_us, 0, 1e4, "each collective, us"),
	MOVED(tile_bytes, 16, 1e9, "of a chunk that a primitive moves"),
	MOVED(wire_factor, 1, 4, "bytes on the wire for each of data"),
	{0},
};
#define WALK_PROTO(key_, i, text)                                                               \
	{                                                                                       \
		.key = key_, .type = SC_F_STRUCT,                                               \
		.offset = offsetof(struct sc_fabric_walk, protos[i]), .sub = WALK_PROTO_FIELDS, \
		.required = true, .help = text                                                  \
	}
#define WALK_RATE(member, lo, text) \
	SC_FIELD_IN(DOUBLE, sc_fabric_walk, member, lo, 1e5, text, .required = true)
static const struct sc_field WALK_FIELDS[] = {
	SC_FIELD(STR, sc_fabric_walk, links, "their id", .required = true),
	WALK_RATE(link_gbps, 0, "between two GPUs, 1e9 bytes/s; 0 = no limit but the ports'"),
	WALK_RATE(port_gbps, 0, "out of a GPU, 1e9 bytes/s"),
	WALK_RATE(local_gbps, 0.01, "copies and reductions of a thread block, 1e9 bytes/s"),
	WALK_PROTO("ll", 0, "protocol LL"),
	WALK_PROTO("ll128", 1, "protocol LL128"),
	WALK_PROTO("simple", 2, "protocol Simple"),
	{0},
};
static const struct sc_field CURVE_FIELDS[] = {
	SC_FIELD(STR, sc_fabric_curve, collective,
		 "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv",
		 .required = true),
	SC_FIELD_IN(INT, sc_fabric_curve, ranks, 2, 1 << 20, "of the collective", .required = true),
	SC_FIELD_IN(INT, sc_fabric_curve, nodes, 1, 1 << 20, "that they are on", .required = true),
	SC_FIELD_IN(DOUBLES, sc_fabric_curve, bytes, 1, 1e15, "sizes, rising", .required = true),
	SC_FIELD_IN(DOUBLES, sc_fabric_curve, time_us, 1e-3, 1e12, "times, never falling, us",
		    .required = true),
	{0},
};
const struct sc_field sc_fabric_fields[] = {
	{.key = "schema", .type = SC_F_IGNORE},
	{.key = "source", .type = SC_F_IGNORE},
	SC_FIELD_LIST(sc_fabric_profile, links, LINK_FIELDS, sc_fabric_link,
		      "inside a node, by GPU generation", .required = true),
	SC_FIELD_LIST(sc_fabric_profile, nets, NET_FIELDS, sc_fabric_net,
		      "between nodes, by fabric kind; the first is the default", .required = true),
	SC_FIELD_MAP(sc_fabric_profile, ramp, RAMP_FIELDS, "latencies and the way to full rate",
		     .required = true),
	SC_FIELD_LIST(sc_fabric_profile, walks, WALK_FIELDS, sc_fabric_walk,
		      "rates of thread blocks, for algorithm files"),
	SC_FIELD_LIST(sc_fabric_profile, curves, CURVE_FIELDS, sc_fabric_curve,
		      "measured times of one machine"),
	SC_FIELD(STR, sc_fabric_profile, gpu, "that the curves are of"),
	FRAC(sc_fabric_profile, spread_frac, "residual spread of times"),
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

static const char *fabric_ref(const char *id, struct sc_arena *arena)
{
	return sc_ends_with(id, ".yaml") ? id : sc_arena_printf(arena, "fabrics/%s.yaml", id);
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
	found = sc_ends_with(fabric, ".yaml") ||
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
	sc_wiring_of_cube_mesh(SC_TOPO_LINK_GBPS, arena, &profile.cube_mesh);
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
