/* Clusters of commands that have no whole config. */
#include "cli/network.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "models/collective/collective_files.h"

#define MAX_BYTES 1e15

double sc_cli_size(const char *text, size_t n)
{
	static const char units[] = "KMGT";
	char digits[32];
	const char *unit = n > 1 ? strchr(units, toupper((unsigned char)text[n - 1])) : NULL;
	double size, scale = unit && *unit ? pow(1024, (double)(unit - units + 1)) : 1;

	n -= scale > 1;
	if (n == 0 || n >= sizeof(digits))
		return 0;
	memcpy(digits, text, n);
	digits[n] = '\0';
	return sc_parse_double(digits, &size) && size * scale <= MAX_BYTES ? size * scale : 0;
}

bool sc_cli_collective(const char *text, size_t n, enum sc_collective *out)
{
	for (int k = 0; sc_collective_names[k]; k++) {
		const char *a = text, *b = sc_collective_names[k];

		for (;; a++, b++) {
			while (a < text + n && (*a == '_' || *a == '-'))
				a++;
			b += *b == '_';
			if (a == text + n || *a != *b)
				break;
		}
		if (a < text + n || *b)
			continue;
		*out = (enum sc_collective)k;
		return true;
	}
	return false;
}

int sc_op_cluster_load(const struct sc_op_cluster *given, struct sc_arena *arena,
		       struct sc_request *request, struct sc_err *err)
{
	struct sc_cluster *cluster = &request->config.cluster;
	const struct sc_device *device = &request->device;
	int rc = 0;

	sc_config_init(&request->config);
	if (given->file)
		rc = sc_config_set(&request->config,
				   &(struct sc_setting){"cluster", given->file, "--cluster"}, arena,
				   err);
	if (rc == 0 && given->device)
		cluster->gpu = given->device;
	if (rc == 0 && !cluster->gpu)
		rc = sc_err_set(err, SC_EUSAGE, "collective needs --device NAME or --cluster FILE");
	if (rc == 0)
		rc = sc_device_load(cluster->gpu, arena, &request->device, err);
	if (rc == 0)
		rc = sc_fabric_profile_load("default", arena, &request->fabric_profile, err);
	if (rc == 0 && cluster->fabric &&
	    sc_fabric_is_file(&request->fabric_profile, cluster->fabric, arena))
		rc = sc_fabric_profile_load(cluster->fabric, arena, &request->fabric_profile, err);
	if (rc)
		return rc;
	sc_config_take_wiring(cluster, device);
	if (cluster->gpus_per_node == SC_NOT_GIVEN)
		cluster->gpus_per_node = device->usual_gpus_per_node;
	if (cluster->nics_per_node == SC_NOT_GIVEN)
		cluster->nics_per_node = device->usual_nics_per_node;
	if (cluster->scale_up_gpus == SC_NOT_GIVEN)
		cluster->scale_up_gpus = sc_device_usual_domain(device, cluster->gpus_per_node);
	if (cluster->nic_gbit_s < 0)
		cluster->nic_gbit_s = device->usual_nic_gbit_s;
	return 0;
}

/* Ranks that are 0 fill the nodes; nodes that are 0 are as many as the ranks fill, else one. */
static int fill_cluster(struct sc_op_cluster *given, struct sc_request *request, struct sc_err *err)
{
	const int64_t per_node = request->config.cluster.gpus_per_node;

	if (given->nodes == 0 && given->ranks > per_node && given->ranks % per_node)
		return sc_err_set(
			err, SC_EUSAGE,
			"ranks=%lld fill no whole nodes of %lld GPUs: take whole ones, or give "
			"nodes, too",
			(long long)given->ranks, (long long)per_node);
	if (given->nodes == 0)
		given->nodes = given->ranks > per_node ? given->ranks / per_node : 1;
	if (given->ranks == 0)
		given->ranks = given->nodes * per_node;
	request->config.gpus = given->nodes > 1 ? given->nodes * per_node : given->ranks;
	if (given->ranks > given->nodes * per_node || given->nodes > given->ranks)
		return sc_err_set(err, SC_ECONFLICT,
				  "collective: ranks=%lld do not fit on nodes=%lld of %lld GPUs",
				  (long long)given->ranks, (long long)given->nodes,
				  (long long)per_node);
	return 0;
}

int sc_cli_network(const struct sc_op_cluster *given, struct sc_arena *arena,
		   struct sc_request *request, struct sc_cli_network *out, struct sc_err *err)
{
	struct sc_op_cluster asked = *given;
	struct sc_span hosts;
	int rc = sc_op_cluster_load(&asked, arena, request, err);

	if (rc == 0)
		rc = fill_cluster(&asked, request, err);
	if (rc)
		return rc;
	hosts = (struct sc_span){.n_ranks = (int)asked.ranks,
				 .n_nodes = (int)asked.nodes,
				 .max_ranks_per_node =
					 (int)((asked.ranks + asked.nodes - 1) / asked.nodes)};
	out->device = request->device.id;
	out->span = sc_span_of_hosts(&request->config.cluster, &hosts);
	rc = sc_fabric_from_request(request, &out->fabric, err);
	return rc ? rc : sc_collective_files_load(request, arena, &out->fabric, err);
}
