/* Lists of what was loaded, under one lock. They are short: a table names a few GPUs. */
#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile/paths.h"
#include "core/profile/profile_priv.h"

enum { BLOCK_BYTES = 1 << 14 };

struct device_entry {
	const char *id;
	struct device_entry *next;
	struct sc_device device;
};
struct software_entry {
	const char *id;
	struct software_entry *next;
	struct sc_software software;
};
struct fabric_entry {
	const char *id;
	struct fabric_entry *next;
	struct sc_fabric_profile fabric;
};
struct sc_catalog {
	pthread_mutex_t lock;
	struct sc_arena arena;
	struct device_entry *devices;
	struct software_entry *software;
	struct fabric_entry *fabrics;
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

static int device(struct sc_catalog *catalog, const char *id, const struct sc_device **out,
		  struct sc_err *err)
{
	struct device_entry *entry = catalog->devices;
	struct sc_arena_mark mark;
	int rc;

	while (entry && strcmp(entry->id, id) != 0)
		entry = entry->next;
	if (!entry) {
		mark = sc_arena_mark(&catalog->arena);
		entry = sc_arena_alloc(&catalog->arena, sizeof(*entry));
		rc = sc_device_load(id, &catalog->arena, &entry->device, err);
		if (rc) {
			sc_arena_rewind(&catalog->arena, mark);
			return rc;
		}
		entry->id = entry->device.id;
		entry->next = catalog->devices;
		catalog->devices = entry;
	}
	*out = &entry->device;
	return 0;
}

int sc_catalog_device(struct sc_catalog *catalog, const char *id, const struct sc_device **out,
		      struct sc_err *err)
{
	int rc;

	pthread_mutex_lock(&catalog->lock);
	rc = device(catalog, id, out, err);
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}

static int software(struct sc_catalog *catalog, const char *id, const struct sc_software **out,
		    struct sc_err *err)
{
	struct software_entry *entry = catalog->software;
	struct sc_arena *arena = &catalog->arena;
	struct sc_arena_mark mark;
	int rc;

	while (entry && strcmp(entry->id, id) != 0)
		entry = entry->next;
	if (!entry) {
		mark = sc_arena_mark(arena);
		entry = sc_arena_alloc(arena, sizeof(*entry));
		entry->id = sc_arena_strdup(arena, id);
		rc = sc_software_load(id, arena, &entry->software, err);
		if (rc == 0)
			rc = sc_habits_load(&entry->software, arena, err);
		if (rc) {
			sc_arena_rewind(arena, mark);
			return rc;
		}
		entry->next = catalog->software;
		catalog->software = entry;
	}
	*out = &entry->software;
	return 0;
}

int sc_catalog_software(struct sc_catalog *catalog, const char *id, const struct sc_software **out,
			struct sc_err *err)
{
	int rc;

	pthread_mutex_lock(&catalog->lock);
	rc = software(catalog, id, out, err);
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}

static int fabric(struct sc_catalog *catalog, const char *id, const struct sc_fabric_profile **out,
		  struct sc_err *err)
{
	struct sc_arena_mark mark = sc_arena_mark(&catalog->arena);
	struct fabric_entry *entry = catalog->fabrics;
	int rc;

	while (entry && strcmp(entry->id, id) != 0)
		entry = entry->next;
	if (!entry) {
		entry = sc_arena_alloc(&catalog->arena, sizeof(*entry));
		entry->id = sc_arena_strdup(&catalog->arena, id);
		rc = sc_fabric_profile_load(entry->id, &catalog->arena, &entry->fabric, err);
		if (rc) {
			sc_arena_rewind(&catalog->arena, mark);
			return rc;
		}
		entry->next = catalog->fabrics;
		catalog->fabrics = entry;
	}
	*out = &entry->fabric;
	return 0;
}

int sc_catalog_fabric(struct sc_catalog *catalog, const char *name,
		      const struct sc_fabric_profile **out, struct sc_err *err)
{
	int rc;

	pthread_mutex_lock(&catalog->lock);
	rc = fabric(catalog, SC_DEFAULT_FABRIC, out, err);
	if (rc == 0 && name && sc_fabric_is_file(*out, name, &catalog->arena))
		rc = fabric(catalog, name, out, err);
	else if (rc == 0 && name)
		rc = sc_fabric_kind_check(*out, name, &catalog->arena, err);
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}

static int load_model(const char *id, struct sc_arena *scratch, struct sc_model *out,
		      struct sc_err *err)
{
	const char *ref = sc_arena_printf(scratch, "models/%s.yaml", id);
	struct sc_config config;
	int rc;

	sc_config_init(&config);
	rc = sc_config_set(&config, &(struct sc_setting){"model", ref, ref}, scratch, err);
	if (rc == 0)
		*out = config.model;
	return rc;
}

/* A model holds no text, so nothing of a file outlives its turn of the loop but the numbers. */
static int load_models(struct sc_catalog *catalog, struct sc_arena *scratch, struct sc_err *err)
{
	const char *const *ids;
	size_t n = sc_config_ids("models", scratch, &ids);
	const struct sc_known_model *first = NULL;
	struct sc_arena_mark mark = sc_arena_mark(&catalog->arena);
	int rc = 0;

	while (rc == 0 && n-- > 0) {
		struct sc_known_model *entry = sc_arena_alloc(&catalog->arena, sizeof(*entry));
		struct sc_arena_mark turn = sc_arena_mark(scratch);

		rc = load_model(ids[n], scratch, &entry->model, err);
		sc_arena_rewind(scratch, turn);
		entry->id = sc_arena_strdup(&catalog->arena, ids[n]);
		entry->next = first;
		first = entry;
	}
	if (rc) {
		sc_arena_rewind(&catalog->arena, mark);
		return rc;
	}
	catalog->models = first;
	catalog->has_models = true;
	return 0;
}

int sc_catalog_models(struct sc_catalog *catalog, const struct sc_known_model **out,
		      struct sc_err *err)
{
	struct sc_arena scratch;
	int rc = 0;

	pthread_mutex_lock(&catalog->lock);
	if (!catalog->has_models) {
		sc_arena_init(&scratch, BLOCK_BYTES);
		rc = load_models(catalog, &scratch, err);
		sc_arena_release(&scratch);
	}
	if (rc == 0)
		*out = catalog->models;
	pthread_mutex_unlock(&catalog->lock);
	return rc;
}
