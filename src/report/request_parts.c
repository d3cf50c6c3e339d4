/* The question as reports tell it: the model, the cluster and the split of a config, in a line of
 * text each and as the key "config" of a document. */
#include <inttypes.h>

#include "base/json_out.h"
#include "report/config_show.h"
#include "report/parts.h"
#include "study/shard/shard_choose.h"

static void append_widths(const char *name, const struct sc_ints *widths, struct sc_strbuf *out)
{
	if (widths->n)
		sc_strbuf_printf(out, ", %s ", name);
	for (size_t i = 0; i < widths->n; i++)
		sc_strbuf_printf(out, "%s%" PRId64, i ? "-" : "", widths->at[i]);
}

static void append_recommender(const struct sc_model *model, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, ", %.0f embedding table%s of %.4g elements", sc_model_n_tables(model),
			 sc_plural((uint64_t)sc_model_n_tables(model)), sc_model_n_elements(model));
	append_widths("bottom MLP", &model->bottom_mlp, out);
	append_widths("top MLP", &model->top_mlp, out);
}

void sc_text_params(double n, struct sc_strbuf *out)
{
	static const struct {
		double of;
		const char *name;
	} units[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1, ""}};
	size_t i = 0;

	while (n < units[i].of && i + 1 < sizeof(units) / sizeof(units[0]))
		i++;
	sc_strbuf_printf(out, "%.4g%s", n / units[i].of, units[i].name);
}

void sc_text_model(const struct sc_config *c, const struct sc_model_params *params,
		   struct sc_strbuf *out)
{
	const char *family =
		c->model.family == SC_LAYERS ? "table" : sc_family_name(c->model.family);

	sc_strbuf_append(out, family);
	if (params) {
		sc_strbuf_append(out, ", ");
		sc_text_params(params->total, out);
		sc_strbuf_append(out, " parameters");
	}
	if (params && params->active < params->total) {
		sc_strbuf_append(out, " (");
		sc_text_params(params->active, out);
		sc_strbuf_append(out, " active)");
	}
	if (c->model.family == SC_DLRM)
		append_recommender(&c->model, out);
	else if (c->model.family == SC_LAYERS)
		sc_strbuf_printf(out, ", %zu layer%s", c->model.rows.n, sc_plural(c->model.rows.n));
	else {
		sc_strbuf_printf(out,
				 ", %" PRId64 " layers, hidden %" PRId64 ", %" PRId64
				 " heads, sequence %" PRId64,
				 c->model.layers, c->model.hidden, c->model.heads, c->model.seq);
		if (c->model.vocab > 0)
			sc_strbuf_printf(out, ", vocabulary %" PRId64, c->model.vocab);
	}
}

void sc_text_split(const struct sc_request *request, struct sc_strbuf *out)
{
	const struct sc_parallel *p = &request->config.parallel;

	if (request->config.model.family == SC_DLRM) {
		sc_strbuf_printf(
			out,
			"data parallel over %" PRId64 ", batch %" PRId64 ", tables placed by %s",
			p->dp, request->config.training.global_batch,
			request->config.sharding.plan
				? request->config.sharding.plan
				: sc_enum_name(sc_planner_names, (int)sc_request_planner(request)));
		return;
	}
	if (request->config.model.family == SC_LAYERS)
		sc_strbuf_printf(out, "data parallel over %" PRId64, p->dp);
	else
		sc_strbuf_printf(out, "tp %" PRId64 ", pp %" PRId64 ", dp %" PRId64, p->tp, p->pp,
				 p->dp);
	if (p->cp > 1)
		sc_strbuf_printf(out, ", cp %" PRId64, p->cp);
	if (p->ep > 1)
		sc_strbuf_printf(out, ", ep %" PRId64, p->ep);
	if (p->virtual_stages > 1)
		sc_strbuf_printf(out, ", %" PRId64 " virtual stages", p->virtual_stages);
	sc_strbuf_printf(out, "; batch %" PRId64 " in micro-batches of %" PRId64,
			 request->config.training.global_batch,
			 request->config.training.micro_batch);
}

void sc_text_cluster(const struct sc_config *c, const char *gpu, struct sc_strbuf *out)
{
	const struct sc_gpu_nodes *nodes = c->cluster.nodes.at;

	if (gpu && c->gpus > 0)
		sc_strbuf_printf(out, "%" PRId64 " x ", c->gpus);
	sc_strbuf_append(out, gpu ? gpu : "");
	for (size_t i = 0; !gpu && i < c->cluster.nodes.n; i++)
		sc_strbuf_printf(out, "%s%" PRId64 " x %s", i ? " + " : "",
				 nodes[i].count * c->cluster.gpus_per_node, nodes[i].gpu);
	if (c->cluster.torus.dims.n == 0 && c->cluster.gpus_per_node > 0)
		sc_strbuf_printf(out, ", %" PRId64 " a node", c->cluster.gpus_per_node);
	for (size_t d = 0; d < c->cluster.torus.dims.n; d++)
		sc_strbuf_printf(out, "%s%" PRId64, d ? "x" : ", a torus of ",
				 c->cluster.torus.dims.at[d]);
}

static json_t *add_config(struct sc_json *json, const struct sc_config *config, const char *gpu)
{
	json_t *object = sc_json_object(json, json->root, "config");
	struct sc_strbuf line = {0};

	sc_text_cluster(config, gpu, &line);
	sc_json_text(json, object, "cluster", sc_strbuf_get(&line));
	sc_strbuf_clear(&line);
	sc_text_model(config, NULL, &line);
	sc_json_text(json, object, "model", sc_strbuf_get(&line));
	sc_strbuf_release(&line);
	return object;
}

void sc_json_base(struct sc_json *json, const struct sc_config *config)
{
	add_config(json, config, config->cluster.nodes.n ? NULL : config->cluster.gpu);
}

json_t *sc_json_request(struct sc_json *json, const struct sc_request *request)
{
	json_t *object = add_config(json, &request->config,
				    sc_request_n_kinds(request) == 1 ? request->device.id : NULL);
	char hash[SC_CONFIG_HASH_BYTES];
	struct sc_strbuf line = {0};

	sc_text_split(request, &line);
	sc_json_text(json, object, "split", sc_strbuf_get(&line));
	sc_strbuf_release(&line);
	sc_json_int(json, object, "gpus", request->config.gpus);
	sc_json_text(json, object, "software", request->software.id);
	sc_json_text(json, object, "hash", sc_config_hash(request, hash));
	sc_json_text(json, object, "stepcast", SC_VERSION);
	return object;
}
