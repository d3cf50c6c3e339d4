/* stepcast devices, models, clusters, software, examples: what is shipped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_out.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "core/config/config.h"
#include "core/machine/device.h"
#include "core/machine/software.h"
#include "core/profile/paths.h"
#include "predict/predict.h"
#include "predict/transformer/transformer_ops.h"
#include "report/config_show.h"
#include "report/parts.h"

enum sc_shipped {
	SC_SHIPPED_DEVICES,
	SC_SHIPPED_MODELS,
	SC_SHIPPED_CLUSTERS,
	SC_SHIPPED_SOFTWARE,
	SC_SHIPPED_EXAMPLES
};

enum { MAX_COLUMNS = 11, MAX_FILE = 4 << 20 };

/* Paths of columns are keys of what a file holds; a model's parameters are counted. */
struct shipped_kind {
	const char *folder;
	const struct sc_field *fields;
	struct {
		const char *title, *path;
	} columns[MAX_COLUMNS + 1];
};
static const struct shipped_kind kinds[] = {
	[SC_SHIPPED_DEVICES] = {"devices",
				sc_device_fields,
				{{"SMs", "sm_count"},
				 {"GiB", "hbm_gib"},
				 {"GB/s", "hbm_gbps"},
				 {"bf16", "peak_tflops.bf16"},
				 {"fp8", "peak_tflops.fp8"},
				 {"W", "tdp_w"},
				 {"a node", "usual_gpus_per_node"},
				 {"measured", "fitted"}}},
	[SC_SHIPPED_MODELS] = {"models",
			       sc_config_fields,
			       {{"family", "model.family"},
				{"parameters", "parameters"},
				{"active", "active_parameters"},
				{"layers", "model.layers"},
				{"hidden", "model.hidden"},
				{"heads", "model.heads"},
				{"seq", "model.seq"},
				{"vocab", "model.vocab"},
				{"experts", "model.experts"},
				{"top_k", "model.top_k"}}},
	[SC_SHIPPED_CLUSTERS] = {"clusters",
				 sc_config_fields,
				 {{"gpu", "cluster.gpu"},
				  {"a node", "cluster.gpus_per_node"},
				  {"NVLink domain", "cluster.scale_up_gpus"},
				  {"NICs", "cluster.nics_per_node"},
				  {"Gbit/s", "cluster.nic_gbit_s"},
				  {"fabric", "cluster.fabric"}}},
	[SC_SHIPPED_SOFTWARE] = {"software", sc_software_fields, {{"gradients", "grad_sync"}}},
	[SC_SHIPPED_EXAMPLES] = {"examples",
				 sc_config_fields,
				 {{"family", "model.family"},
				  {"gpu", "cluster.gpu"},
				  {"GPUs", "gpus"},
				  {"software", "training.software"},
				  {"measured ms", "measured_ms"}}},
};

struct entry {
	const char *id, *file, *note; /* note: the file's first comment */
	unsigned char *object;
	struct sc_model_params params; /* of a model; 0 where they cannot be counted */
};
struct entries {
	const struct shipped_kind *kind;
	const char *word; /* only ids, names and notes that have it, a case apart; NULL: all */
	struct sc_arena *arena;
	struct entry *at;
	size_t n;
};

/* "# Source: X (Y); Z.\n# more" -> "X (Y); Z." */
static int read_note(struct entry *e, struct sc_arena *arena, struct sc_err *err)
{
	static const char source[] = "Source: ";
	struct sc_source file;
	const char *at;
	int rc = sc_file_read(e->file, MAX_FILE, &file, err);

	if (rc)
		return rc;
	at = file.text + strspn(file.text, "# ");
	if (strncmp(at, source, strlen(source)) == 0)
		at += strlen(source);
	e->note = *file.text == '#' ? sc_arena_strndup(arena, at, strcspn(at, "\n")) : "";
	sc_source_release(&file);
	return 0;
}

/* Any GPU will do: a model has as many parameters on all. */
static void count_params(const struct sc_config *model, struct sc_model_params *out)
{
	struct sc_config config = *model;
	struct sc_catalog *catalog;
	struct sc_request *request;

	if (config.model.family == SC_DLRM)
		out->total = sc_model_n_elements(&config.model);
	if (!sc_model_is_transformer(&config.model))
		return;
	catalog = sc_catalog_create();
	request = sc_xcalloc(1, sizeof(*request));
	config.cluster.gpu = "h100-sxm-80gb";
	config.gpus = config.training.global_batch = 1;
	if (sc_config_resolve(&config, catalog, "models", request, NULL) == 0)
		sc_transformer_model_params(request, out);
	free(request);
	sc_catalog_destroy(catalog);
}

static int load_entry(const struct entries *list, const char *id, struct entry *e,
		      struct sc_err *err)
{
	struct sc_config_ref ref = {
		.at = sc_arena_printf(list->arena, "%s/%s.yaml", list->kind->folder, id)};
	const char *kind;
	int rc = sc_config_path(ref, list->arena, &e->file, err);

	e->id = id;
	if (rc || (rc = read_note(e, list->arena, err)))
		return rc;
	if (list->kind == &kinds[SC_SHIPPED_DEVICES]) {
		e->object = sc_arena_calloc(list->arena, 1, sizeof(struct sc_device));
		return sc_device_load(id, list->arena, (void *)e->object, err);
	}
	if (list->kind == &kinds[SC_SHIPPED_SOFTWARE]) {
		e->object = sc_arena_calloc(list->arena, 1, sizeof(struct sc_software));
		return sc_software_load(id, list->arena, (void *)e->object, err);
	}
	e->object = sc_arena_calloc(list->arena, 1, sizeof(struct sc_config));
	if (list->kind == &kinds[SC_SHIPPED_EXAMPLES]) {
		e->id = e->file;
		return sc_config_load(e->file, list->arena, (void *)e->object, err);
	}
	sc_config_init((void *)e->object);
	kind = list->kind == &kinds[SC_SHIPPED_MODELS] ? "model" : "cluster";
	rc = sc_config_set((void *)e->object, &(struct sc_setting){kind, e->file, e->file},
			   list->arena, err);
	if (rc == 0 && list->kind == &kinds[SC_SHIPPED_MODELS])
		count_params((void *)e->object, &e->params);
	return rc;
}

/* The value of a column; empty where the file gives none. */
static void append_cell(const struct entries *all, size_t i_entry, size_t column,
			struct sc_strbuf *out)
{
	const struct entry *e = &all->at[i_entry];
	const char *path = all->kind->columns[column].path;
	struct sc_field_place place;
	const void *at;

	if (strcmp(path, "parameters") == 0 || strcmp(path, "active_parameters") == 0) {
		double n = *path == 'p' ? e->params.total : e->params.active;

		if (n > 0 && (*path == 'p' || n < e->params.total))
			sc_text_params(n, out);
		return;
	}
	place = sc_field_find(all->kind->fields, path, all->arena);
	at = e->object + place.base_offset + place.field->offset;
	if (place.field->type == SC_F_STR)
		sc_strbuf_append(out, *(const char *const *)at ? *(const char *const *)at : "");
	else if (place.field->type == SC_F_ENUM ? *(const int *)at >= 0
						: !sc_field_is_absent(place.field, at))
		sc_config_show_value(place.field, at, out);
}

static bool has_word(const struct entries *all, size_t i)
{
	struct sc_strbuf text = {0};
	bool has;

	if (!all->word)
		return true;
	sc_strbuf_printf(&text, "%s %s ", all->at[i].id, all->at[i].note);
	for (size_t c = 0; all->kind->columns[c].title; c++) {
		append_cell(all, i, c, &text);
		sc_strbuf_append_char(&text, ' ');
	}
	has = sc_text_has(sc_strbuf_get(&text), all->word, strlen(all->word));
	sc_strbuf_release(&text);
	return has;
}

/* Models stand by family, then by name. */
static int compare_models(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	const struct sc_config *of_a = (const void *)a->object, *of_b = (const void *)b->object;
	const int order =
		strcmp(sc_family_name(of_a->model.family), sc_family_name(of_b->model.family));

	return order ? order : strcmp(a->id, b->id);
}

/* A file that cannot be read is an error that names it; so is a word that nothing has. */
static int collect_entries(struct entries *all, struct sc_err *err)
{
	const char *const *ids;
	const size_t n = sc_config_ids(all->kind->folder, all->arena, &ids);
	int rc = 0;

	all->at = sc_arena_calloc(all->arena, n + 1, sizeof(*all->at));
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (all->kind == &kinds[SC_SHIPPED_DEVICES] && strncmp(ids[i], "arch-", 5) == 0)
			continue;
		rc = load_entry(all, ids[i], &all->at[all->n], err);
		if (rc == 0 && has_word(all, all->n))
			all->n++;
	}
	if (rc == 0 && all->kind == &kinds[SC_SHIPPED_MODELS])
		qsort(all->at, all->n, sizeof(*all->at), compare_models);
	if (rc == 0 && all->n == 0 && all->word)
		rc = sc_err_set(
			err, SC_EUSAGE,
			"%s: none has \"%.64s\"; without a word all are listed, with STEPCAST_CONFIGS=. your own, too",
			all->kind->folder, all->word);
	return rc;
}

/* An example by the path that names it from any folder. */
static const char *shown_id(const struct entry *e)
{
	const char *path = strstr(e->id, "/configs/examples/");

	return path ? path + 1 : e->id;
}

static void put_shipped_text(const void *ctx, struct sc_strbuf *out)
{
	const struct entries *all = ctx;
	size_t width[MAX_COLUMNS], id_width = 2;
	struct sc_strbuf cell = {0};

	for (size_t i = 0; i < all->n; i++)
		if (strlen(shown_id(&all->at[i])) > id_width)
			id_width = strlen(shown_id(&all->at[i]));
	for (size_t c = 0; all->kind->columns[c].title; c++) {
		width[c] = strlen(all->kind->columns[c].title);
		for (size_t i = 0; i < all->n; i++) {
			sc_strbuf_clear(&cell);
			append_cell(all, i, c, &cell);
			width[c] = cell.n > width[c] ? cell.n : width[c];
		}
	}
	for (size_t i = 0; i < all->n + 1; i++) {
		sc_strbuf_printf(out, "%-*s", (int)id_width, i ? shown_id(&all->at[i - 1]) : "id");
		for (size_t c = 0; all->kind->columns[c].title; c++) {
			sc_strbuf_clear(&cell);
			if (i)
				append_cell(all, i - 1, c, &cell);
			else
				sc_strbuf_append(&cell, all->kind->columns[c].title);
			sc_strbuf_printf(out, "  %-*s", (int)width[c], sc_strbuf_get(&cell));
		}
		sc_strbuf_printf(out, "  %s\n", i ? all->at[i - 1].note : "source");
	}
	sc_strbuf_release(&cell);
}

static void put_shipped_document(const void *ctx, struct sc_json *json)
{
	const struct entries *all = ctx;
	struct sc_strbuf cell = {0};
	json_t *rows;

	sc_json_init(json, "stepcast-shipped", 1);
	rows = sc_json_array(json, json->root, all->kind->folder);
	for (size_t i = 0; i < all->n; i++) {
		json_t *object = sc_json_object(json, rows, NULL);

		sc_json_text(json, object, "id", all->at[i].id);
		sc_json_text(json, object, "source", all->at[i].note);
		for (size_t c = 0; all->kind->columns[c].title; c++) {
			const char *path = all->kind->columns[c].path, *dot = strrchr(path, '.');

			sc_strbuf_clear(&cell);
			append_cell(all, i, c, &cell);
			if (strncmp(path, "peak_tflops.", 12) != 0 && dot)
				path = dot + 1;
			if (strcmp(path, "parameters") == 0)
				sc_json_known_real(json, object, path, all->at[i].params.total);
			else if (strcmp(path, "active_parameters") == 0)
				sc_json_known_real(json, object, path, all->at[i].params.active);
			else if (cell.n == 0)
				sc_json_text(json, object, path, NULL);
			else
				sc_json_cell(json, object, path, sc_strbuf_get(&cell));
		}
	}
	sc_strbuf_release(&cell);
}

static const struct sc_forms forms = {.json = put_shipped_document, .text = put_shipped_text};

struct shipped_args {
	struct sc_common common;
	enum sc_shipped kind;
	int json, template;
};

#define SC_ARGS struct shipped_args
static const struct sc_cli_option OPTIONS[] = {
	/* the first is of devices alone */
	SC_OPT_FLAG(template, "template", "write a file to fill in for a GPU that is not shipped"),
	SC_OPT_JSON(json),
	{0},
};

static int list(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct shipped_args *args = into;
	const struct sc_arg_list *words = &args->common.words;
	struct entries all = {.kind = &kinds[args->kind],
			      .arena = call->arena,
			      .word = words->n ? words->at[0] : NULL};
	int rc;

	if (words->n > 1)
		return sc_err_set(err, SC_EUSAGE, "%s: expected one WORD at most",
				  call->line->command->name);
	if (args->template)
		return sc_cli_write_template("gpu.yaml", call, err);
	rc = collect_entries(&all, err);
	return rc ? rc : sc_cli_give(call, &forms, &all, err);
}

#define COMMAND(name_, kind_, options_, summary_, details_)                                       \
	const struct sc_command sc_command_##name_ = {                                            \
		.name = #name_,                                                                   \
		.summary = summary_,                                                              \
		.synopsis = "[WORD] [--json]",                                                    \
		.words = "",                                                                      \
		.details = details_ "\n\n"                                                        \
				    "WORD keeps those whose name, figures or source contain it.", \
		.options = options_,                                                              \
		.args_bytes = sizeof(struct shipped_args),                                        \
		.defaults = &(const struct shipped_args){.kind = kind_},                          \
		.run = list,                                                                      \
	}

COMMAND(devices, SC_SHIPPED_DEVICES, OPTIONS, "list the GPUs that are shipped",
	"One line per GPU: what cluster.gpu takes, SMs, memory (GiB, 1e9 bytes/s), dense peaks (TFLOP/s), power limit, "
	"GPUs in its usual node, and which of its models were fitted on it.\n\n"
	"  stepcast devices --template -o devices/my-gpu.yaml");
COMMAND(models, SC_SHIPPED_MODELS, OPTIONS + 1, "list the models that are shipped",
	"One line per model, by family: what model: models/ID.yaml takes, its shape and where that is published.");
COMMAND(clusters, SC_SHIPPED_CLUSTERS, OPTIONS + 1, "list the clusters that are shipped",
	"One line per cluster: what cluster: clusters/ID.yaml takes, its nodes and their network.");
COMMAND(software, SC_SHIPPED_SOFTWARE, OPTIONS + 1, "list the software profiles that are shipped",
	"One line per profile: what training.software takes and what it describes.");
COMMAND(examples, SC_SHIPPED_EXAMPLES, OPTIONS + 1, "list the example configs that are shipped",
	"One line per example: its file, model's family, GPUs, software, measured time if any, and what it is.");
