/* A model that is a table of layers: rows from a CSV file, and whether the request fits them. */
#include <inttypes.h>

#include "base/csv_rows.h"
#include "core/config/config_priv.h"

int sc_config_load_rows(struct sc_config *config, const char *path, struct sc_arena *arena,
			struct sc_err *err)
{
	struct sc_layer_row *layers;
	struct sc_csv csv;
	struct sc_csv_rows rows = {
		.csv = &csv, .fields = sc_layer_row_fields, .list = "a list of layers"};
	int rc = sc_csv_load(path, arena, &csv, err);

	if (rc == 0)
		rc = sc_csv_rows_bind(&rows, arena, err);
	if (rc == 0 && !csv.n_rows)
		rc = sc_err_at(err, SC_EVALUE, csv.file, 1, 0, "no layers below the header");
	if (rc)
		return rc;
	layers = sc_arena_calloc(arena, csv.n_rows, sizeof(*layers));
	for (size_t i = 0; i < csv.n_rows && rc == 0; i++)
		rc = sc_csv_rows_get(&rows, i, &layers[i], err);
	if (rc == 0)
		config->model.rows = (struct sc_structs){.at = layers, .n = csv.n_rows};
	return rc;
}

/* ---- checks ---- */

/* One kind of rank, whole micro-batches: nothing is known of a layer that could be cut. */
int sc_config_check_layers(const struct sc_resolver *res)
{
	const struct sc_request *req = res->request;
	int rc = sc_config_check_data_parallel(res, "a model of family layers is data parallel");

	if (rc)
		return rc;
	if (!req->config.model.rows.n)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.rows is not given; list the layers, as in `rows: [{name: conv1, "
			"flop: 2.4e8, bytes: 1.9e6, params: 9408}]`, or name a CSV file in "
			"model.rows_csv");
	if (sc_request_n_kinds(req) > 1 || req->config.stragglers.n)
		return sc_resolve_fail(res, SC_EUNSUPPORTED,
				       req->config.stragglers.n ? "stragglers" : "cluster.nodes",
				       "a model of family layers runs on GPUs that are alike; "
				       "remove %s",
				       req->config.stragglers.n ? "stragglers" : "cluster.nodes");
	if (req->config.parallel.sharding != SC_ZERO_NONE)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "parallel.sharding",
				       "parallel.sharding: a model of family layers is replicated "
				       "whole; remove it");
	if (req->last_micro_batch < (double)req->config.training.micro_batch)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.micro_batch",
				       "training.micro_batch %" PRId64
				       " does not divide a replica's samples; choose one that does",
				       req->config.training.micro_batch);
	return 0;
}
