/* A request from a file and from dotted overrides: what the user said, nothing filled in. */
#include "core/config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config_priv.h"
#include "core/profile/paths.h"
#include "core/profile/profile_priv.h"

enum { MAX_ORIGINS = 1024 };

static void init_model(struct sc_model *model)
{
	*model = (struct sc_model){
		.family = SC_FAMILY_NONE,
		.layers = SC_NOT_GIVEN,
		.hidden = SC_NOT_GIVEN,
		.heads = SC_NOT_GIVEN,
		.kv_heads = SC_NOT_GIVEN,
		.ffn_hidden = SC_NOT_GIVEN,
		.vocab = SC_NOT_GIVEN,
		.seq = SC_NOT_GIVEN,
		.head_dim = SC_NOT_GIVEN,
		.experts = SC_NOT_GIVEN,
		.top_k = SC_NOT_GIVEN,
		.expert_ffn_hidden = SC_NOT_GIVEN,
		.shared_experts = SC_NOT_GIVEN,
		.dense_layers = SC_NOT_GIVEN,
		.q_lora_rank = SC_NOT_GIVEN,
		.kv_lora_rank = SC_NOT_GIVEN,
		.rope_head_dim = SC_NOT_GIVEN,
		.v_head_dim = SC_NOT_GIVEN,
		.tied_embeddings = SC_NOT_GIVEN,
		.dense_features = SC_NOT_GIVEN,
		.interaction = (enum sc_interaction)SC_NOT_GIVEN,
		.cross_layers = SC_NOT_GIVEN,
		.low_rank = SC_NOT_GIVEN,
		.interact_stride = SC_NOT_GIVEN,
	};
}

static void init_cluster(struct sc_cluster *cluster)
{
	*cluster = (struct sc_cluster){
		.gpus_per_node = SC_NOT_GIVEN,
		.nics_per_node = SC_NOT_GIVEN,
		.scale_up_gpus = SC_NOT_GIVEN,
		.nic_gbit_s = SC_NOT_GIVEN,
		.nic_latency_us = SC_NOT_GIVEN,
		.link_gbps = SC_NOT_GIVEN,
		.host_memory_gib = SC_NOT_GIVEN,
		.ssd_gib = SC_NOT_GIVEN,
	};
}

void sc_config_init(struct sc_config *config)
{
	memset(config, 0, sizeof(*config));
	config->gpus = SC_NOT_GIVEN;
	init_cluster(&config->cluster);
	init_model(&config->model);
	config->sharding = (struct sc_sharding_plan){
		.bw_ratio = SC_NOT_GIVEN,
		.dp_threshold_gb = SC_NOT_GIVEN,
		.column_slice_elements = SC_NOT_GIVEN,
		.hbm_gib = SC_NOT_GIVEN,
		.hbm_reserve_frac = SC_NOT_GIVEN,
	};
	config->parallel = (struct sc_parallel){
		.tp = SC_NOT_GIVEN,
		.pp = SC_NOT_GIVEN,
		.dp = SC_NOT_GIVEN,
		.cp = SC_NOT_GIVEN,
		.ep = SC_NOT_GIVEN,
		.virtual_stages = SC_NOT_GIVEN,
		.schedule = SC_SCHED_1F1B,
		.shard_ranks = SC_NOT_GIVEN,
	};
	config->training = (struct sc_training){
		.global_batch = SC_NOT_GIVEN,
		.micro_batch = SC_NOT_GIVEN,
		.precision = (enum sc_precision)SC_NOT_GIVEN,
		.recompute = (enum sc_recompute)SC_NOT_GIVEN,
		.attention = (enum sc_attention)SC_NOT_GIVEN,
		.fill_fraction = SC_NOT_GIVEN,
		.expert_imbalance = SC_NOT_GIVEN,
		.lora_rank = SC_NOT_GIVEN,
		.lora_targets = (enum sc_lora_targets)SC_NOT_GIVEN,
	};
}

/* The mapping of a cluster or model file, without the keys that are about the file. */
static void strip_file_keys(struct sc_yaml *map)
{
	static const char *const keys[] = {"schema", "source", "sources", "notes"};
	struct sc_yaml **link = &map->child;

	while (*link) {
		bool drop = false;

		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			drop = drop || strcmp((*link)->key, keys[i]) == 0;
		if (drop) {
			*link = (*link)->next;
			map->n_children--;
		} else {
			link = &(*link)->next;
		}
	}
}

static int load_section_file(const char *path, struct sc_arena *arena, struct sc_yaml **out,
			     struct sc_err *err)
{
	int rc = sc_yaml_load(path, arena, out, err);

	if (rc == 0)
		rc = sc_schema_check(*out, false, err);
	if (rc == 0)
		strip_file_keys(*out);
	return rc;
}

static int open_ref(void *ctx, const char *ref, const struct sc_yaml *at, struct sc_arena *arena,
		    struct sc_yaml **out, struct sc_err *err)
{
	const char *path;
	int rc = sc_config_path(ref, at->file, arena, &path, err);

	(void)ctx;
	return rc ? rc : load_section_file(path, arena, out, err);
}

static void add_origins(struct sc_config *config, const struct sc_origin *at, size_t n,
			struct sc_arena *arena)
{
	struct sc_origins *layer = sc_arena_alloc(arena, sizeof(*layer));

	*layer = (struct sc_origins){.at = at, .n = n, .older = config->origins};
	config->origins = layer;
}

/* Decodes over `config`; what is given becomes the newest layer of origins. */
static int decode(const struct sc_yaml *map, struct sc_config *config, struct sc_arena *arena,
		  const struct sc_yaml_opts *opts, struct sc_err *err)
{
	/* a section's own file, if it is one's */
	const char *file = map->child && map->n_children == 1 ? map->child->file : map->file;
	struct sc_yaml_opts own = {.open_ref = open_ref, .cap_origins = MAX_ORIGINS};
	size_t n;
	int rc;

	if (opts && opts->open_ref) {
		own.open_ref = opts->open_ref;
		own.ctx = opts->ctx;
	}
	own.origins = sc_arena_alloc(arena, MAX_ORIGINS * sizeof(*own.origins));
	rc = sc_yaml_decode(map, sc_config_fields, config, arena, &own, err);
	if (rc == 0)
		rc = sc_model_fill_tables(&config->model, file, arena, err);
	if (rc)
		return rc;
	n = own.n_origins < MAX_ORIGINS ? own.n_origins : MAX_ORIGINS;
	add_origins(config, own.origins, n, arena);
	return 0;
}

static void copy_origins(const struct sc_origins *layer, struct sc_yaml_opts *opts)
{
	for (size_t i = 0; i < layer->n; i++) {
		if (opts->n_origins < opts->cap_origins)
			opts->origins[opts->n_origins] = layer->at[i];
		opts->n_origins++;
	}
}

int sc_config_load(const char *path, struct sc_arena *arena, struct sc_config *out,
		   struct sc_yaml_opts *opts, struct sc_err *err)
{
	struct sc_config config;
	struct sc_yaml *root;
	int rc = sc_yaml_load(path, arena, &root, err);

	if (rc == 0)
		rc = sc_schema_check(root, false, err);
	if (rc)
		return rc;
	sc_config_init(&config);
	config.file = sc_arena_strdup(arena, path);
	rc = decode(root, &config, arena, opts, err);
	if (rc)
		return rc;
	if (opts && opts->origins)
		copy_origins(config.origins, opts);
	*out = config;
	return 0;
}

/* Beside the config, then installed; a path that the shell completed is tried last. */
static int section_path(const struct sc_config *config, const char *ref, struct sc_arena *arena,
			const char **path, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	int rc = sc_config_path(ref, config->file, arena, path, &own);

	if (rc == 0)
		return 0;
	if (ref[0] && access(ref, R_OK) == 0) {
		*path = ref;
		return 0;
	}
	return sc_err_set(err, own.code, "%s", own.text);
}

void sc_config_take_section(struct sc_config *config, const char *key,
			    const struct sc_config *section)
{
	if (strcmp(key, "model") == 0)
		config->model = section->model;
	else
		config->cluster = section->cluster;
}

static int set_section(struct sc_config *config, const char *key, const char *ref, const char *from,
		       struct sc_arena *arena, struct sc_err *err)
{
	struct sc_yaml root = {.kind = SC_YAML_MAP, .file = from, .n_children = 1}, *map;
	struct sc_config section;
	struct sc_origin *origin;
	const char *path;
	struct sc_err own = {.code = SC_OK};
	int rc = section_path(config, ref, arena, &path, &own);

	if (rc)
		return sc_err_set(err, own.code, "%s: %s", key, own.text);
	rc = load_section_file(path, arena, &map, err);
	if (rc)
		return rc;
	map->key = key;
	root.child = map;
	sc_config_init(&section);
	section.origins = config->origins;
	rc = decode(&root, &section, arena, NULL, err);
	if (rc)
		return rc;
	origin = sc_arena_alloc(arena, sizeof(*origin));
	*origin = (struct sc_origin){.path = key, .file = sc_arena_strdup(arena, from)};
	sc_config_take_section(config, key, &section);
	/* The reference is older than the values it brought. */
	add_origins(config, origin, 1, arena);
	add_origins(config, section.origins->at, section.origins->n, arena);
	return 0;
}

bool sc_origin_is_typed(const char *from)
{
	return strncmp(from, "--", 2) == 0;
}

static int unknown_path(const char *path, const char *nearest, struct sc_err *err)
{
	const int rc = sc_field_in_list(sc_config_fields, path, "", err);

	if (rc)
		return rc;
	if (nearest)
		return sc_err_set(err, SC_EVALUE, "unknown key \"%.64s\"; did you mean \"%.64s\"?",
				  path, nearest);
	return sc_err_set(err, SC_EVALUE, "unknown key \"%.64s\"; keys are as in \"parallel.tp\"",
			  path);
}

static int set_value(struct sc_config *config, const char *path, const char *text, const char *from,
		     struct sc_arena *arena, struct sc_err *err)
{
	const char *nearest, *key = sc_arena_strdup(arena, path);
	size_t base_offset;
	const struct sc_field *field =
		sc_field_find(sc_config_fields, path, &base_offset, arena, &nearest);
	struct sc_origin *origin;
	int rc;

	if (!field)
		return unknown_path(path, nearest, err);
	if (field->type == SC_F_STRUCT && field->may_be_file)
		return set_section(config, field->key, text, from, arena, err);
	if (field->type == SC_F_IGNORE)
		return sc_err_set(err, SC_EUNSUPPORTED, "%s: can only be set in a file", path);
	rc = sc_field_set_text(field, path, text, config, base_offset, arena, err);
	if (rc == 0 && strcmp(key, "model.tables_csv") == 0) {
		config->model.tables = (struct sc_structs){0};
		rc = sc_origin_is_typed(from)
			     ? sc_model_load_tables_typed(&config->model, config->file, arena, err)
			     : sc_model_fill_tables(&config->model, config->file, arena, err);
	}
	if (rc)
		return rc;
	origin = sc_arena_alloc(arena, sizeof(*origin));
	*origin = (struct sc_origin){.path = key, .file = sc_arena_strdup(arena, from)};
	add_origins(config, origin, 1, arena);
	return 0;
}

int sc_config_set(struct sc_config *config, const char *path, const char *text, const char *from,
		  struct sc_arena *arena, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	struct sc_config copy = *config;
	int rc = set_value(&copy, path, text, from, arena, &own);

	if (rc == 0 && copy.schema && strcmp(copy.schema, SC_SCHEMA) != 0)
		rc = sc_err_set(&own, SC_EFORMAT, "schema: this program reads " SC_SCHEMA);
	if (rc)
		return sc_err_at(err, own.code, own.file[0] ? own.file : from, own.line, own.column,
				 "%s", own.text);
	*config = copy;
	return 0;
}

/* A section replaced by a file hides what older layers gave in it. */
static bool replaces(const char *given, const char *path)
{
	size_t n = strlen(given);

	return strncmp(given, path, n) == 0 && path[n] == '.';
}

const struct sc_origin *sc_config_origin(const struct sc_config *config, const char *path)
{
	for (const struct sc_origins *layer = config->origins; layer; layer = layer->older) {
		bool hidden = false;

		for (size_t i = 0; i < layer->n; i++) {
			if (strcmp(layer->at[i].path, path) == 0)
				return &layer->at[i];
			hidden = hidden || replaces(layer->at[i].path, path);
		}
		if (hidden)
			return NULL;
	}
	return NULL;
}

const struct sc_origin *sc_config_origin_near(const struct sc_config *config, const char *path)
{
	const struct sc_origin *origin = sc_config_origin(config, path);

	for (const struct sc_origins *layer = config->origins; layer && !origin;
	     layer = layer->older)
		for (size_t i = 0; i < layer->n && !origin; i++)
			if (replaces(path, layer->at[i].path))
				origin = &layer->at[i];
	return origin ? origin : sc_config_origin(config, "");
}

enum sc_dtype sc_precision_dtype(enum sc_precision precision)
{
	static const enum sc_dtype dtypes[] = {
		[SC_P_FP32] = SC_FP32,     [SC_P_TF32] = SC_TF32, [SC_P_FP16] = SC_FP16,
		[SC_P_BF16] = SC_BF16,     [SC_P_FP8] = SC_FP8,   [SC_P_AMP_FP16] = SC_FP16,
		[SC_P_AMP_BF16] = SC_BF16,
	};

	return dtypes[precision];
}

void sc_warn(struct sc_warnings *warnings, const char *fmt, ...)
{
	size_t n_max = sizeof(warnings->text[0]);
	va_list args;
	char *text;
	int n;

	if (warnings->n == SC_MAX_WARNINGS)
		return;
	text = warnings->text[warnings->n++];
	va_start(args, fmt);
	n = vsnprintf(text, n_max, fmt, args);
	va_end(args);
	if (n >= (int)n_max)
		memcpy(text + n_max - 4, "...", 4);
}

bool sc_order_parse(const char *order, int axes[SC_N_ORDER_AXES], int *n_named)
{
	static const char names[SC_N_ORDER_AXES][3] = {"tp", "cp", "ep", "dp", "pp"};
	bool seen[SC_N_ORDER_AXES] = {false};
	int n = 0;

	for (;;) {
		int axis = 0;

		while (axis < SC_N_ORDER_AXES && strncmp(order, names[axis], 2) != 0)
			axis++;
		if (axis == SC_N_ORDER_AXES || seen[axis] || (order[2] && order[2] != '-'))
			return false;
		seen[axis] = true;
		axes[n++] = axis;
		if (!order[2])
			break;
		order += 3;
	}
	if (n_named)
		*n_named = n;
	for (int axis = 0; axis < SC_N_ORDER_AXES; axis++)
		if (!seen[axis])
			axes[n++] = axis;
	return true;
}

/* With the ends counted, the later chunks have one more, and the first and last one less. */
static void count_ends(int64_t layers, int64_t n_chunks, int64_t *out)
{
	int64_t each = (layers + 2) / n_chunks, n_more = (layers + 2) % n_chunks;

	for (int64_t i = 0; i < n_chunks; i++)
		out[i] = each + (i >= n_chunks - n_more);
	out[0]--;
	out[n_chunks - 1]--;
}

void sc_stage_layers(const struct sc_request *request, int64_t *layers)
{
	const struct sc_parallel *par = &request->config.parallel;
	int64_t n_chunks = par->pp * par->virtual_stages, n_layers = request->config.model.layers;
	int64_t each = n_layers / n_chunks, n_more = n_layers % n_chunks;

	if (request->software.ends_are_layers && !par->stage_layers.n && each > 1) {
		count_ends(n_layers, n_chunks, layers);
		return;
	}
	for (int64_t i = 0; i < n_chunks; i++)
		layers[i] = par->stage_layers.n ? par->stage_layers.at[i] : each + (i < n_more);
}

enum sc_dtype sc_storage_dtype(enum sc_precision precision)
{
	return precision == SC_P_FP8 ? SC_BF16 : sc_precision_dtype(precision);
}

double sc_grad_bytes(const struct sc_request *request)
{
	enum sc_dtype dtype = sc_storage_dtype(request->config.training.precision);
	double bytes =
		dtype == SC_BF16 ? request->software.grad_bytes_bf16 : request->software.grad_bytes;

	return bytes > sc_dtype_bytes(dtype) ? bytes : sc_dtype_bytes(dtype);
}
