/* A device and its node, by id. */
#include "study/c3/c3_priv.h"

int sc_c3_machine_load(struct sc_c3_machine *machine, const char *id, struct sc_arena *arena,
		       struct sc_err *err)
{
	struct sc_request *request = &machine->request;
	int rc;

	machine->id = id;
	sc_config_init(&request->config);
	rc = sc_device_load(id, arena, &request->device, err);
	return rc ? rc : sc_fabric_profile_load("default", arena, &request->fabric_profile, err);
}

int sc_c3_machine_fabric(struct sc_c3_machine *machine, int64_t gpus, struct sc_arena *arena,
			 const struct sc_fabric **out)
{
	struct sc_fabric *fabric = sc_arena_calloc(arena, 1, sizeof(*fabric));
	struct sc_cluster *cluster = &machine->request.config.cluster;

	machine->request.config.gpus = gpus;
	cluster->gpus_per_node = cluster->scale_up_gpus = gpus;
	cluster->nics_per_node = 0;
	*out = fabric;
	return sc_fabric_from_request(&machine->request, fabric, NULL);
}
