/* The steps that resolve a request, one file a part of it; their order and what arises in each is
 * the page at the head of config_resolve.c. */
#pragma once

#include "core/config/config.h"

enum { SC_MAX_GPUS = 1 << 20 };
struct sc_resolver {
	struct sc_request *request;
	struct sc_catalog *catalog;
	const char *file; /* or NULL */
	struct sc_err *err;
};
/* config_origin.c: an error about the key `path`, where its value was given. Returns -code. */
int sc_resolve_fail(const struct sc_resolver *res, enum sc_errc code, const char *path,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
extern const struct sc_name sc_family_names[], sc_precision_names[];
/* Facts of a mixture of experts that are not given, from the model of configs/models of the same
 * family, hidden, heads, kv_heads and vocab where given; a warning names it. None: unchanged. */
int sc_known_model_fill(struct sc_request *request, struct sc_catalog *catalog, struct sc_err *err);
/* cluster.nodes: loads the device of each kind, and fills cluster.gpu. */
int sc_nodes_resolve(const struct sc_resolver *res);
/* The nodes hold all GPUs, and can work together. */
int sc_nodes_check(const struct sc_resolver *res);
/* Passes on what is wrong in a profile's file; an unknown id is placed where `path` was given. */
int sc_resolve_profile_error(const struct sc_resolver *res, const char *path,
			     const struct sc_err *own);
/* config_release.c: replaces a profile by that of a release which does things its own way. */
int sc_config_take_release(const struct sc_resolver *res, const struct sc_software **software);
/* config_schedule.c: its chunks, and the layers of each. */
int sc_config_resolve_schedule(const struct sc_resolver *res);
/* config_schedule.c: chunks of a layout, 0 if it is wrong, and the layers of the first `max`. */
int64_t sc_layout_chunks(const char *text, int64_t max, int64_t *layers);
int sc_config_check_layout(const struct sc_resolver *res);
/* config_habits.c: reads the pieces of config of a profile; takes what holds: the network, before
 * its profile is read; the split, before it is resolved; the precision; the rest. Policies are
 * asked for (config_c3.c). */
enum sc_habit_stage {
	SC_HABIT_CLUSTER,
	SC_HABIT_LAYERS, /* precision: the request's, as kinds of layers are told before habits */
	SC_HABIT_SPLIT,
	SC_HABIT_PRECISION,
	SC_HABIT_REST,
	SC_HABIT_POLICY
};
int sc_habits_load(struct sc_software *software, struct sc_arena *arena, struct sc_err *err);
void sc_habits_take(struct sc_request *request, enum sc_habit_stage stage);
/* The first kind of GPU without math of a type, or NULL. */
const struct sc_device *sc_kind_without(const struct sc_request *request, enum sc_dtype dtype);
/* config_habits.c: virtual stages; then fill, adapters, and what is left open. */
void sc_config_fill_options(struct sc_request *request);
/* config_c3.c: policies by family, and what follows from them. Needs the split. */
int sc_config_resolve_c3(const struct sc_resolver *res);
/* config_offload.c: places and shares not given; keys that find nothing to divide. */
int sc_config_resolve_offload(const struct sc_resolver *res);
void sc_config_warn_offload(struct sc_request *request);
/* Host memory that was not given: the usual one of the GPUs in use. */
void sc_config_host_memory(struct sc_request *request);
/* config_pattern.c: words of model.layers_pattern by layer. */
struct sc_pattern {
	uint8_t at[SC_MAX_PATTERN];
	size_t n;
	bool apart; /* mixers and feed-forward parts are layers of their own */
};
int sc_pattern_parse(const char *text, struct sc_pattern *out, struct sc_err *err);
/* Once the model is filled; once its split is. */
int sc_config_resolve_pattern(const struct sc_resolver *res);
int sc_config_check_pattern(const struct sc_resolver *res);
/* config_dit.c: diffusion transformers, and that no other family has their layers. */
int sc_config_check_dit(const struct sc_resolver *res);
/* family.c: by position, where the kinds of layers do not say it. */
enum sc_feed sc_model_layer_feed(const struct sc_model *model, int64_t layer);
/* After every default is filled. Of what fits together warns what has no effect. */
int sc_config_check(const struct sc_resolver *res);
int sc_config_check_transformer(const struct sc_resolver *res);
int sc_config_check_dlrm(const struct sc_resolver *res);
/* config_dlrm.c: keys without effect on a DLRM. */
void sc_config_warn_dlrm(struct sc_request *request);
/* Read a file that a config names: config_dlrm.c model.tables_csv, config_layers.c model.rows_csv,
 * config_topology.c cluster.topology: ASTRA-sim's YAML fills what the cluster lacks. */
int sc_config_load_tables(struct sc_config *config, const char *path, struct sc_arena *arena,
			  struct sc_err *err);
int sc_config_load_rows(struct sc_config *config, const char *path, struct sc_arena *arena,
			struct sc_err *err);
int sc_config_load_topology(struct sc_config *config, const char *path, struct sc_arena *arena,
			    struct sc_err *err);
/* Fills in what tables leave out; again is fine. */
int sc_model_fill_tables(struct sc_model *model, struct sc_arena *arena, struct sc_err *err);
/* config_cluster.c: a torus is one node; c3.endpoint's part is the device's, after policies. */
int sc_config_resolve_torus(const struct sc_resolver *res);
int sc_config_take_endpoint(const struct sc_resolver *res);
extern const struct sc_field sc_layer_row_fields[];
int sc_config_check_layers(const struct sc_resolver *res);
/* config_dlrm.c: no stages, tensor-, context- or expert-parallel ranks; `why` says what instead. */
int sc_config_check_data_parallel(const struct sc_resolver *res, const char *why);
