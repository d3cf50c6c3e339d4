/* Makes the network of a request as the collective model wants it: device and cluster facts joined
 * with the fabric profile's coefficients. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/collective/collective_priv.h"

/* A DGX-1 has eight Voltas with six links each and no switch. */
enum { CUBE_MESH_GPUS = 8, VOLTA_CAPABILITY = 70, SWITCH_MIN_GPUS = 5 };

static enum sc_link_topology topology_of(const struct sc_cluster *cluster,
					 const struct sc_device *device, int link_gpus)
{
	static const enum sc_link_topology told[] = {[SC_LINKS_SWITCH] = SC_LINK_SWITCH,
						     [SC_LINKS_MESH] = SC_LINK_MESH,
						     [SC_LINKS_CUBE_MESH] = SC_LINK_WIRED};

	if (cluster->wiring)
		return cluster->wiring->has_switch ? SC_LINK_SWITCH
		       : cluster->wiring->is_mesh  ? SC_LINK_MESH
						   : SC_LINK_WIRED;
	if (cluster->links != SC_LINKS_USUAL)
		return told[cluster->links];
	if (link_gpus <= 2)
		return SC_LINK_SWITCH;
	if (device->vendor && strcmp(device->vendor, "amd") == 0)
		return SC_LINK_MESH;
	/* The module of 16-GPU nodes (V100 SXM3) exists only behind their switches, however few a
	 * node is said to have. */
	if (device->cuda_capability > 0 && device->usual_gpus_per_node > CUBE_MESH_GPUS)
		return SC_LINK_SWITCH;
	if (link_gpus < SWITCH_MIN_GPUS)
		return SC_LINK_MESH; /* boards of four are wired pair by pair */
	if (link_gpus == CUBE_MESH_GPUS && device->cuda_capability <= VOLTA_CAPABILITY)
		return SC_LINK_WIRED;
	return SC_LINK_SWITCH;
}

static void set_coefficients(const struct sc_request *request, const struct sc_device *device,
			     struct sc_fabric *out)
{
	const struct sc_fabric_profile *profile = &request->fabric_profile;
	const struct sc_cluster *cluster = &request->config.cluster;
	const struct sc_fabric_link *link =
		sc_fabric_link_get(profile, device->vendor, device->cuda_capability);
	const struct sc_fabric_walk *walks = profile->walks.at;

	out->link = *link;
	if (out->topology != SC_LINK_SWITCH)
		out->link.nvls_eff = 0;
	for (size_t i = 0; i < profile->walks.n; i++)
		if (strcmp(walks[i].links, link->id) == 0)
			out->walk = &walks[i];
	out->net = *sc_fabric_net_get(profile, cluster->fabric);
	if (cluster->nic_latency_us >= 0)
		out->net.latency_us = cluster->nic_latency_us;
	out->ramp = profile->ramp;
	if (!profile->gpu || strcmp(profile->gpu, device->id) == 0)
		out->curves = profile->curves;
	if (out->topology == SC_LINK_WIRED)
		out->wiring = cluster->wiring ? *cluster->wiring : profile->cube_mesh;
}

/* Jobs take the same part of each scale-up domain (Slurm's topology/block with --segment): 256 GPUs
 * on domains of 72 are four times 64, 1,024 are sixteen times 64; at least three quarters, else
 * domains are filled. */
int64_t sc_node_gpus_of(const struct sc_request *request)
{
	const struct sc_cluster *cluster = &request->config.cluster;
	int64_t host_gpus = cluster->gpus_per_node > 0 ? cluster->gpus_per_node : 1;
	int64_t domain = cluster->scale_up_gpus > host_gpus ? cluster->scale_up_gpus : host_gpus;
	int64_t gpus = request->config.gpus;

	if (domain == host_gpus || gpus <= domain)
		return domain;
	for (int64_t n = (gpus + domain - 1) / domain; gpus / n >= domain * 3 / 4; n++)
		if (gpus % n == 0 && gpus / n % host_gpus == 0)
			return gpus / n;
	return domain;
}

int sc_fabric_of_kind(const struct sc_request *request, size_t kind, struct sc_fabric *out,
		      struct sc_err *err)
{
	const struct sc_cluster *cluster = &request->config.cluster;
	const struct sc_device *device = sc_request_device(request, kind);
	int64_t host_gpus = cluster->gpus_per_node > 0 ? cluster->gpus_per_node : 1;
	int64_t domain = cluster->scale_up_gpus > 0 ? cluster->scale_up_gpus : host_gpus;
	int64_t node = sc_node_gpus_of(request);
	int64_t nics = cluster->nics_per_node > 0 ? cluster->nics_per_node : 0;
	struct sc_fabric fabric = {0};

	if (request->fabric_profile.links.n == 0 || request->fabric_profile.nets.n == 0)
		return sc_err_set(err, SC_ECONFLICT, "no fabric profile loaded");
	if (request->config.gpus > node && (nics == 0 || !(cluster->nic_gbit_s > 0)))
		return sc_err_set(err, SC_ECONFLICT,
				  "cluster.nics_per_node, cluster.nic_gbit_s: %lld GPUs need "
				  "several nodes of %lld, and those need NICs",
				  (long long)request->config.gpus, (long long)node);
	fabric.link_gbps = cluster->link_gbps >= 0
				   ? cluster->link_gbps
				   : (double)device->nvlink_links * device->nvlink_link_gbps;
	fabric.pcie_gbps = device->pcie_gbps;
	fabric.nic_gbps = sc_gbit_to_gbps(cluster->nic_gbit_s > 0 ? cluster->nic_gbit_s : 0);
	fabric.gpus_per_node = (int)node;
	fabric.nics_per_node = (int)(nics * ((node + host_gpus - 1) / host_gpus));
	fabric.link_gpus = (int)domain;
	/* AMD has no CUDA capability: the generation with like links stands in. */
	fabric.sm_arch = device->cuda_capability > 0 ? (int)device->cuda_capability : 90;
	fabric.sm_count = (int)device->sm_count;
	fabric.hbm_gbps = device->hbm_gbps;
	fabric.amd = device->vendor && strcmp(device->vendor, "amd") == 0;
	fabric.topology = topology_of(cluster, device, (int)domain);
	fabric.sharp = cluster->sharp != 0;
	fabric.copy_us = device->interference.copy_us;
	fabric.copy_speed = device->interference.copy_speed;
	fabric.torus = cluster->torus;
	fabric.tiers = cluster->tiers;
	fabric.host_gpus = (int)host_gpus;
	fabric.endpoint = request->config.c3.endpoint;
	if (fabric.endpoint.sms < 0) /* nothing is kept: it has all in its turn */
		fabric.endpoint.sms = device->sm_count;
	if (fabric.endpoint.memory_gbps < 0)
		fabric.endpoint.memory_gbps = device->hbm_gbps;
	set_coefficients(request, device, &fabric);
	*out = fabric;
	return 0;
}

struct sc_span sc_span_of_hosts(const struct sc_cluster *cluster, const struct sc_span *hosts)
{
	int64_t gpus = cluster->gpus_per_node > 0 ? cluster->gpus_per_node : 1;
	int together = (int)(cluster->scale_up_gpus / gpus);
	struct sc_span out = *hosts;

	if (together < 2)
		return out;
	out.n_nodes = (hosts->n_nodes + together - 1) / together;
	out.max_ranks_per_node =
		out.n_nodes == 1 ? hosts->n_ranks : together * hosts->max_ranks_per_node;
	return out;
}

static double link_rate(const struct sc_fabric *fabric)
{
	return fabric->link_gbps > 0 ? fabric->link_gbps * fabric->link.eff : fabric->pcie_gbps;
}

int sc_fabric_from_request(const struct sc_request *request, struct sc_fabric *out,
			   struct sc_err *err)
{
	struct sc_fabric fabric = {0}, other = {0};
	int rc = sc_fabric_of_kind(request, 0, &fabric, err);

	for (size_t k = 1; rc == 0 && k < sc_request_n_kinds(request); k++) {
		rc = sc_fabric_of_kind(request, k, &other, err);
		if (rc == 0) {
			/* A ring or tree goes at the pace of its slowest member: it is wired and
			 * tuned as the GPUs with the slowest links, and has no part better than any
			 * member has it. */
			const struct sc_fabric mine = fabric;

			if (link_rate(&other) < link_rate(&mine))
				fabric = other;
			fabric.pcie_gbps = fmin(mine.pcie_gbps, other.pcie_gbps);
			fabric.sm_arch =
				mine.sm_arch < other.sm_arch ? mine.sm_arch : other.sm_arch;
			fabric.sm_count =
				mine.sm_count < other.sm_count ? mine.sm_count : other.sm_count;
			fabric.hbm_gbps = fmin(mine.hbm_gbps, other.hbm_gbps);
			fabric.curves.n = 0; /* of one kind of GPU alone */
			fabric.link.nvls_eff = fmin(mine.link.nvls_eff, other.link.nvls_eff);
			fabric.link.simple_us = fmax(mine.link.simple_us, other.link.simple_us);
			fabric.link.hop_us = fmax(mine.link.hop_us, other.link.hop_us);
			fabric.link.latency_us = fmax(mine.link.latency_us, other.link.latency_us);
		}
	}
	if (rc == 0)
		*out = fabric;
	return rc;
}
