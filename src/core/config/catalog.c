/* Lists of what was loaded, under one lock. They are short: a table names a few GPUs. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"
#include "core/profile/paths.h"

enum { BLOCK_BYTES = 1 << 14 };

enum what { DEVICE, SOFTWARE, FABRIC, N_WHAT };
struct entry {
	const char *id;
	struct entry *next;
	void *object;
};
struct band_entry {
	struct sc_band band;
	struct band_entry *next;
};
struct sc_catalog {
	pthread_mutex_t lock;
	struct sc_arena arena;
	struct entry *entries[N_WHAT];
	struct band_entry *bands;
	const struct sc_likeness *likeness;
	bool has_models;
	const struct sc_known_model *models;
};

struct sc_catalog *sc_catalog_create(void)
{
	struct sc_catalog *catalog = sc_xmalloc(sizeof(*catalog));

	memset(catalog, 0, sizeof(*catalog));
	pthread_mutex_init(&catalog->lock, NULL);
	sc_arena_init(&catalog->arena, BLOCK_BYTES);
	return catalog;
}

void sc_catalog_destroy(struct sc_catalog *catalog)
{
	if (!catalog)
		return;
	pthread_mutex_destroy(&catalog->lock);
	sc_arena_release(&catalog->arena);
	free(catalog);
}

static int load_profile(enum what what, const char *id, struct sc_arena *arena, void **out,
			struct sc_err *err)
{
	static const size_t bytes[] = {sizeof(struct sc_device), sizeof(struct sc_software),
				       sizeof(struct sc_fabric_profile)};
	int rc;

	*out = sc_arena_alloc(arena, bytes[what]);
	if (what == DEVICE)
		return sc_device_load(id, arena, *out, err);
	if (what == FABRIC)
		return sc_fabric_profile_load(id, arena, *out, err);
	rc = sc_software_load(id, arena, *out, err);
	return rc ? rc : sc_habits_load(*out, arena, err);
}

/* Loaded once. `out`: a pointer to what it is. */
static int profile_get(struct sc_catalog *catalog, enum what what, const char *id, void *out,
		       struct sc_err *err)
{
	struct sc_arena *arena = &catalog->arena;
	struct sc_arena_mark mark;
	struct entry *entry;
	int rc = 0;

	pthread_mutex_lock(&catalog->lock);
	mark = sc_arena_mark(arena);
	entry = catalog->entries[what];
	while (entry && strcmp(entry->id, id) != 0)
		entry = entry->next;
	if (!entry) {
		entry = sc_arena_alloc(arena, sizeof(*entry));
		*entry = (struct entry){sc_arena_strdup(arena, id), catalog->entries[what], NULL};
		rc = load_profile(what, entry->id, arena, &entry->object, err);
		if (rc == 0)
			catalog->entries[what] = entry;
	}
	if (rc == 0)
		memcpy(out, &entry->object, sizeof(entry->object));
	else
		sc_arena_rewind(arena, mark);
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}

int sc_catalog_device(struct sc_catalog *catalog, const char *id, const struct sc_device **out,
		      struct sc_err *err)
{
	return profile_get(catalog, DEVICE, id, out, err);
}

int sc_catalog_software(struct sc_catalog *catalog, const char *id, const struct sc_software **out,
			struct sc_err *err)
{
	return profile_get(catalog, SOFTWARE, id, out, err);
}

int sc_catalog_fabric(struct sc_catalog *catalog, const char *name,
		      const struct sc_fabric_profile **out, struct sc_err *err)
{
	const struct sc_fabric_profile *standard;
	const struct sc_fabric_net *nets;
	struct sc_arena scratch;
	struct sc_name *kinds;
	int kind, rc = profile_get(catalog, FABRIC, SC_DEFAULT_FABRIC, &standard, err);

	if (rc == 0)
		*out = standard;
	if (rc || !name)
		return rc;
	sc_arena_init(&scratch, 0);
	nets = standard->nets.at;
	kinds = sc_arena_calloc(&scratch, standard->nets.n + 1, sizeof(*kinds));
	for (size_t i = 0; i < standard->nets.n; i++)
		kinds[i].name = nets[i].kind;
	rc = sc_fabric_is_file(standard, name, &scratch)
		     ? profile_get(catalog, FABRIC, name, out, err)
		     : sc_enum_parse(kinds, name, &kind, err);
	sc_arena_release(&scratch);
	return rc;
}

static bool is_like(const struct sc_like *a, const struct sc_like *b)
{
	for (int c = SC_LIKE_GPU; c < SC_N_LIKE_COLUMNS; c++)
		if (strcmp(a->at[c], b->at[c]) != 0)
			return false;
	return true;
}

int sc_catalog_band(struct sc_catalog *catalog, const struct sc_like *like, double own_ln,
		    const struct sc_band **out, struct sc_err *err)
{
	struct band_entry *entry;
	const char *path;
	int rc = 0;

	pthread_mutex_lock(&catalog->lock);
	entry = catalog->bands;
	while (entry && !is_like(&entry->band.like, like))
		entry = entry->next;
	if (!catalog->likeness) {
		rc = sc_config_path((struct sc_config_ref){.at = "likeness.csv"}, &catalog->arena,
				    &path, err);
		if (rc == 0)
			rc = sc_likeness_load(path, &catalog->arena, &catalog->likeness, err);
	}
	if (!entry && rc == 0) {
		entry = sc_arena_alloc(&catalog->arena, sizeof(*entry));
		sc_band_find(catalog->likeness, like, 0, &entry->band);
		if (own_ln > 0)
			sc_band_take_own(&entry->band, own_ln);
		entry->next = catalog->bands;
		catalog->bands = entry;
	}
	if (rc == 0)
		*out = &entry->band;
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}

/* All of them, by id; read when first asked for. NULL: there are none. A model holds no text, so
 * nothing of a file outlives its turn of the loop but the numbers. */
static int catalog_models(struct sc_catalog *catalog, const struct sc_known_model **out,
			  struct sc_err *err)
{
	const struct sc_known_model *first = NULL;
	const char *const *ids;
	struct sc_arena scratch;
	size_t n;
	int rc = 0;

	pthread_mutex_lock(&catalog->lock);
	sc_arena_init(&scratch, BLOCK_BYTES);
	n = catalog->has_models ? 0 : sc_config_ids("models", &scratch, &ids);
	while (rc == 0 && n-- > 0) {
		struct sc_known_model *entry = sc_arena_alloc(&catalog->arena, sizeof(*entry));
		struct sc_arena_mark turn = sc_arena_mark(&scratch);
		const char *ref = sc_arena_printf(&scratch, "models/%s.yaml", ids[n]);
		struct sc_config config;

		sc_config_init(&config);
		rc = sc_config_set(&config, &(struct sc_setting){"model", ref, ref}, &scratch, err);
		*entry = (struct sc_known_model){sc_arena_strdup(&catalog->arena, ids[n]),
						 config.model, first};
		first = entry;
		sc_arena_rewind(&scratch, turn);
	}
	if (rc == 0 && !catalog->has_models)
		catalog->models = first;
	catalog->has_models |= rc == 0;
	*out = catalog->models;
	sc_arena_release(&scratch);
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}

/* Published mixtures, by shape: tables often name a model and only print its width. */

static bool is_or_not_given(int64_t wanted, int64_t known)
{
	return wanted == SC_NOT_GIVEN || wanted == known;
}

/* Takes the one with as many layers, else the first by name: benchmarks cut layers off. */
static const struct sc_known_model *find_mixture(const struct sc_known_model *known,
						 const struct sc_model *wanted)
{
	const struct sc_known_model *first = NULL;

	for (; known; known = known->next) {
		int64_t kv_heads = known->model.kv_heads == SC_NOT_GIVEN ? known->model.heads
									 : known->model.kv_heads;

		/* Tables write moe for a mixture with latent attention too. Layers of several kinds
		 * are no guess: whose model has them says so. */
		if (!(known->model.experts != SC_NOT_GIVEN &&
		      sc_family_traits(known->model.family)->experts &&
		      (wanted->layers_pattern || !known->model.layers_pattern) &&
		      (wanted->family == SC_MOE || known->model.kv_lora_rank != SC_NOT_GIVEN) &&
		      sc_model_is_sparse(&known->model) == sc_model_is_sparse(wanted) &&
		      known->model.hidden == wanted->hidden &&
		      known->model.heads == wanted->heads &&
		      is_or_not_given(wanted->kv_heads, kv_heads) &&
		      is_or_not_given(wanted->vocab, known->model.vocab)))
			continue;
		if (known->model.layers == wanted->layers)
			return known;
		if (!first)
			first = known;
	}
	return first;
}

/* Everything but layers, of which mtp_layers are some, and seq, which belong to the run. */
static void take_shape(struct sc_model *model, const struct sc_model *known)
{
	const struct sc_model given = *model;
	const struct sc_field *field = sc_config_fields;

	while (strcmp(field->key, "model") != 0)
		field++;
	for (field = field->sub; field->key; field++)
		if (sc_field_is_absent(field, (char *)model + field->offset))
			memcpy((char *)model + field->offset, (const char *)known + field->offset,
			       sc_field_bytes(field));
	model->layers = given.layers;
	model->mtp_layers = given.mtp_layers;
	model->seq = given.seq;
	if (given.dense_layers == SC_NOT_GIVEN && model->layers != SC_NOT_GIVEN &&
	    model->dense_layers > model->layers)
		model->dense_layers = model->layers;
}

int sc_known_model_fill(struct sc_request *request, struct sc_catalog *catalog, struct sc_err *err)
{
	struct sc_model *model = &request->config.model;
	const struct sc_known_model *known;
	int rc;

	if (model->hidden == SC_NOT_GIVEN || model->heads == SC_NOT_GIVEN)
		return 0;
	rc = catalog_models(catalog, &known, err);
	if (rc)
		return rc;
	known = find_mixture(known, model);
	if (!known)
		return 0;
	take_shape(model, &known->model);
	sc_warn(&request->warnings,
		"model.experts is not given; the model is taken for models/%.40s.yaml: experts %" PRId64
		", top_k %" PRId64,
		known->id, model->experts, model->top_k);
	return 0;
}
