/* The network that a row of a sweep was measured on, from its columns `intra` and `inter`:
 *
 *   intra  NVLink<g>_NVSwitch, NVLink<g>_direct_mesh, NVLink<g>_NVL<n>, NVLink_bridge, xGMI..., PCIe...,
 *          none; "<n>x<r>GB/s" in it gives the port's rate
 *   inter  <n>x<Gbit>Gb_<net>, <net>_<n>x<Gbit>Gb, <net>_<Gbit>Gb; <net> by the words below; _SHARP
 *          where the switches add; a text of intra where one domain of links spans the hosts; none
 *
 * What is empty or says nothing is the device's usual node, and the row has a warning. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "models/fit/fit_priv.h"

enum { MAX_COUNT = 4096, MAX_RATE = 100000 };

/* What a text of `inter` says of the fabric, and one port's Gbit/s; the first that occurs counts. */
struct net_word {
	const char *word, *kind;
	double gbit_s; /* 0: the word does not say */
};
static const struct net_word NET_WORDS[] = {
	{"EFA", "efa", 0},          {"Slingshot", "slingshot", 200}, {"Omni", "omni-path", 100},
	{"RoCE", "ethernet", 0},    {"GbE", "ethernet", 0},          {"Ethernet", "ethernet", 0},
	{"TCP", "ethernet", 0},     {"XDR", "infiniband", 800},      {"NDR", "infiniband", 400},
	{"HDR", "infiniband", 200}, {"EDR", "infiniband", 100},      {"FDR", "infiniband", 56},
	{"IB", "infiniband", 0},    {"InfiniBand", "infiniband", 0},
};
/* A port of a GPU's links by generation, 1e9 bytes/s one way, where the device has none of its own. */
static const double NVLINK_GBPS[] = {0, 80, 150, 300, 450, 900};
enum { N_NET_WORDS = sizeof(NET_WORDS) / sizeof(NET_WORDS[0]) };
enum { N_NVLINKS = sizeof(NVLINK_GBPS) / sizeof(NVLINK_GBPS[0]) };

/* A whole number that begins here and ends before `*end`; 0 where there is none. */
static long number_at(const char *at, const char **end)
{
	char *after = (char *)(uintptr_t)at;
	long n = isdigit((unsigned char)*at) ? strtol(at, &after, 10) : 0;

	*end = after;
	return n;
}

/* "4x200Gb_Slingshot11", "8xHDR200_IB", "7x64GB/s": a count, a rate of one. */
static bool find_product(const char *text, long *count, double *rate)
{
	for (const char *at = text; *at; at++) {
		const char *end;
		long n, r;

		if (at > text && isdigit((unsigned char)at[-1]))
			continue;
		n = number_at(at, &end);
		if (n < 1 || n > MAX_COUNT || *end != 'x')
			continue;
		for (end++; isalpha((unsigned char)*end);)
			end++;
		r = number_at(end, &end);
		if (r < 1 || r > MAX_RATE)
			continue;
		*count = n;
		*rate = (double)r;
		return true;
	}
	return false;
}

/* "RoCE_200Gb": of one NIC, how many is not said. */
static double find_rate(const char *text)
{
	for (const char *at = text; *at; at++) {
		const char *end;
		long r;

		if (at > text && isalnum((unsigned char)at[-1]))
			continue;
		r = number_at(at, &end);
		if (r > 0 && r <= MAX_RATE && strncmp(end, "Gb", 2) == 0)
			return (double)r;
	}
	return 0;
}

static bool has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

/* "..._NVL72": GPUs of one domain; 0 where the text has none. */
static int64_t domain_of(const char *text)
{
	const char *at = strstr(text, "NVL"), *end;

	for (; at; at = strstr(at + 1, "NVL")) {
		long n = number_at(at + strlen("NVL"), &end);

		if (n >= 2 && n <= MAX_COUNT)
			return n;
	}
	return 0;
}

/* Of a port; -1: the device's own. */
static double port_gbps(const char *intra, const struct sc_device *device)
{
	const char *at = strstr(intra, "NVLink"), *end;
	long generation = at ? number_at(at + strlen("NVLink"), &end) : 0, count;
	double rate;

	if (has(intra, "PCI") || strcmp(intra, "none") == 0)
		return 0;
	if (find_product(intra, &count, &rate))
		return (double)count * rate;
	if (device->nvlink_links > 0)
		return -1;
	if (has(intra, "bridge") && device->bridge_gbps > 0)
		return device->bridge_gbps;
	return generation > 0 && generation < N_NVLINKS ? NVLINK_GBPS[generation] : -1;
}

static enum sc_links links_of(const char *intra, const struct sc_cluster *c)
{
	if (has(intra, "Switch"))
		return SC_LINKS_SWITCH;
	if (has(intra, "cube"))
		return SC_LINKS_CUBE_MESH;
	/* Without a switch, more than four GPUs cannot all be neighbours over NVLink: a cube mesh. */
	if (has(intra, "mesh"))
		return has(intra, "NVLink") && c->gpus_per_node > 4 ? SC_LINKS_CUBE_MESH
								    : SC_LINKS_MESH;
	return domain_of(intra) > 4 ? SC_LINKS_SWITCH : SC_LINKS_USUAL;
}

static bool tells_links(const char *intra)
{
	return has(intra, "NVLink") || has(intra, "xGMI") || has(intra, "PCI") ||
	       strcmp(intra, "none") == 0;
}

static void set_intra(const char *intra, const struct sc_device *device, struct sc_cluster *out)
{
	out->links = links_of(intra, out);
	/* Without a word on the wiring, the ranks are some of the device's usual node. */
	if ((out->links == SC_LINKS_USUAL || out->links == SC_LINKS_SWITCH) &&
	    device->usual_gpus_per_node > out->gpus_per_node)
		out->gpus_per_node = device->usual_gpus_per_node;
	out->link_gbps = port_gbps(intra, device);
}

/* NICs of which only the rate is told are as many for a GPU as in the usual node. */
static int64_t usual_nics(const struct sc_device *device, int64_t gpus_per_node)
{
	int64_t usual = device->usual_gpus_per_node > 0 ? device->usual_gpus_per_node : 1;
	int64_t n = device->usual_nics_per_node * gpus_per_node / usual;

	return n > 0 ? n : 1;
}

static void set_inter(const char *inter, const struct sc_device *device, struct sc_cluster *out,
		      bool *known)
{
	double rate = find_rate(inter);
	long count;

	*known = strcmp(inter, "none") == 0;
	out->nics_per_node = usual_nics(device, out->gpus_per_node);
	out->nic_gbit_s = device->usual_nic_gbit_s > 0 ? device->usual_nic_gbit_s : 100;
	for (size_t i = 0; i < N_NET_WORDS && !*known; i++) {
		if (!has(inter, NET_WORDS[i].word))
			continue;
		*known = true;
		out->fabric = NET_WORDS[i].kind;
		if (NET_WORDS[i].gbit_s > 0)
			out->nic_gbit_s = NET_WORDS[i].gbit_s;
	}
	if (rate > 0)
		out->nic_gbit_s = rate;
	if (find_product(inter, &count, &rate)) {
		out->nics_per_node = count;
		out->nic_gbit_s = rate;
		*known = true;
	}
	out->sharp = has(inter, "SHARP");
}

/* GPUs that reach each other over links: of all hosts where `inter` or the size in `intra` says so, of
 * two where a bridge joins them. */
static int64_t link_domain(const char *intra, const char *inter, const struct sc_device *device,
			   const struct sc_cluster *c, int64_t n_hosts)
{
	int64_t domain = domain_of(inter) > 0 ? domain_of(inter) : domain_of(intra);
	int64_t node = c->gpus_per_node;

	if (domain == 0 && (has(inter, "NVLink") || has(inter, "xGMI")))
		domain = n_hosts * node;
	if (has(intra, "bridge"))
		domain = 2;
	if (*intra == '\0' && *inter == '\0')
		domain = device->usual_scale_up_gpus;
	if (domain < 2)
		return node;
	return domain < node ? domain : domain / node * node;
}

const char *sc_fit_network_read(const struct sc_fit_table *t, const struct sc_span *hosts,
				struct sc_cluster *out)
{
	const char *intra = t->cells.intra, *inter = t->cells.inter;
	const struct sc_device *device = t->device;
	bool intra_known = tells_links(intra) || hosts->max_ranks_per_node == 1, inter_known;

	out->gpu = device->id;
	set_intra(intra, device, out);
	out->scale_up_gpus = link_domain(intra, inter, device, out, hosts->n_nodes);
	set_inter(inter, device, out, &inter_known);
	inter_known |= hosts->n_nodes == 1 || out->scale_up_gpus >= hosts->n_ranks;
	if (intra_known && inter_known)
		return NULL;
	return sc_arena_printf(t->arena, "%s \"%.64s\" says nothing; the usual node of %s is taken",
			       intra_known ? "inter" : "intra", intra_known ? inter : intra,
			       device->id);
}
