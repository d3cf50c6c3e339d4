/* A plan as JSON (shard_plan_json.c): a line a shard, so that two plans can be compared by diff. */
#include <string.h>

#include "base/json_text.h"
#include "core/embedding/shard_plan.h"

/* The module of tables whose plan does not say one. */
#define DEFAULT_MODULE "embeddings"

static const char *module_of(const struct sc_table_placement *t)
{
	return t->module ? t->module : DEFAULT_MODULE;
}

static void put_shards(const struct sc_shard_plan *plan, const struct sc_table_placement *t,
		       struct sc_strbuf *out)
{
	const struct sc_shard *s = plan->shards.at + t->first_shard;

	sc_strbuf_append(out, "        \"sharding_spec\": ");
	if (t->type == SC_DATA_PARALLEL) {
		sc_strbuf_append(out, "null,\n");
		return;
	}
	sc_strbuf_append(out, "[\n");
	for (uint32_t i = 0; i < t->n_shards; i++) {
		uint32_t rank = (uint32_t)s[i].rank;
		uint32_t device = plan->ranks_per_host ? rank % plan->ranks_per_host : rank;

		sc_strbuf_printf(
			out,
			"          {\"placement\": \"rank:%u/cuda:%u\", "
			"\"shard_offsets\": [%lld, %lld], \"shard_sizes\": [%lld, %lld]}%s\n",
			rank, device, (long long)s[i].row_offset, (long long)s[i].col_offset,
			(long long)s[i].rows, (long long)s[i].cols, i + 1 < t->n_shards ? "," : "");
	}
	sc_strbuf_append(out, "        ],\n");
}

static void put_table(const struct sc_shard_plan *plan, const struct sc_table_placement *t,
		      struct sc_strbuf *out)
{
	const struct sc_shard *s = plan->shards.at + t->first_shard;

	sc_strbuf_append(out, "      ");
	/* Its name in the module. */
	size_t n = t->module ? strlen(t->module) : 0;
	bool has_path = n && strncmp(t->name, t->module, n) == 0 && t->name[n] == '.';

	sc_json_quote(has_path ? t->name + n + 1 : t->name, out);
	sc_strbuf_append(out, ": {\n");
	if (t->tier == SC_TIER_CACHED)
		sc_strbuf_printf(out, "        \"cache_params\": {\"load_factor\": %.9g},\n",
				 t->cache_frac);
	sc_strbuf_printf(out, "        \"compute_kernel\": \"%s\",\n",
			 t->type == SC_DATA_PARALLEL && t->tier == SC_TIER_HBM
				 ? "dense"
				 : sc_enum_name(sc_tier_names, (int)t->tier));
	if (t->hot_rows)
		sc_strbuf_printf(out, "        \"hot_rows\": %lld,\n", (long long)t->hot_rows);
	sc_strbuf_append(out, "        \"ranks\": [");
	for (uint32_t i = 0; i < t->n_shards; i++)
		sc_strbuf_printf(out, "%s%d", i ? ", " : "", (int)s[i].rank);
	sc_strbuf_printf(out, "],\n        \"shape\": [%lld, %lld],\n", (long long)t->rows,
			 (long long)t->dim);
	put_shards(plan, t, out);
	sc_strbuf_printf(out, "        \"sharding_type\": \"%s\"\n      }",
			 sc_enum_name(sc_shard_type_names, (int)t->type));
}

static void put_module(const struct sc_shard_plan *plan, size_t first, bool *is_put,
		       struct sc_strbuf *out)
{
	const char *module = module_of(&plan->tables.at[first]);
	const char *separator = "";

	sc_strbuf_append(out, "    ");
	sc_json_quote(module, out);
	sc_strbuf_append(out, ": {\n");
	for (size_t i = first; i < plan->tables.n; i++) {
		const struct sc_table_placement *t = &plan->tables.at[i];

		if (is_put[i] || (t->module != plan->tables.at[first].module &&
				  strcmp(module_of(t), module) != 0))
			continue;
		is_put[i] = true;
		sc_strbuf_append(out, separator);
		put_table(plan, t, out);
		separator = ",\n";
	}
	sc_strbuf_append(out, "\n    }");
}

void sc_shard_plan_print(const struct sc_shard_plan *plan, struct sc_strbuf *out)
{
	bool *is_put = sc_xcalloc(plan->tables.n + 1, sizeof(*is_put));
	const char *separator = "";

	sc_strbuf_append(out, "{\n  \"plan\": {\n");
	for (size_t i = 0; i < plan->tables.n; i++) {
		if (is_put[i])
			continue;
		sc_strbuf_append(out, separator);
		put_module(plan, i, is_put, out);
		separator = ",\n";
	}
	sc_strbuf_printf(out,
			 "\n  },\n  \"ranks_per_host\": %u,\n  \"schema\": \"stepcast/shard-plan\","
			 "\n  \"version\": 1,\n  \"world_size\": %u\n}\n",
			 plan->ranks_per_host, plan->world);
	free(is_put);
}
