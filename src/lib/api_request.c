/* Errors and requests of libstepcast. What a file gave is shared by all copies of a request; what
 * was set is each one's own, and is set again in a copy. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api_priv.h"

#define SAME_STATUS(name) \
	static_assert((int)STEPCAST_##name == (int)SC_E##name, "as enum sc_errc has it")
SAME_STATUS(IO);
SAME_STATUS(FORMAT);
SAME_STATUS(VALUE);
SAME_STATUS(CONFLICT);
SAME_STATUS(LIMIT);
SAME_STATUS(DEADLOCK);
SAME_STATUS(UNSUPPORTED);
SAME_STATUS(USAGE);

enum { BLOCK_BYTES = 16 << 10, MAX_MESSAGE = 1024 };

static _Thread_local char last_text[MAX_MESSAGE];
static _Thread_local enum sc_errc last_code;
static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

const char *stepcast_version(void)
{
	return SC_VERSION;
}

const char *stepcast_error(void)
{
	return last_text;
}

enum stepcast_status stepcast_error_status(void)
{
	return (enum stepcast_status)last_code;
}

static void make_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

void sc_api_enter(struct sc_api_call *call)
{
	pthread_once(&locale_once, make_locale);
	*call = (struct sc_api_call){.caller = uselocale(c_locale)};
	sc_arena_init(&call->arena, 0);
}

void sc_api_leave(struct sc_api_call *call)
{
	last_code = call->err.code;
	last_text[0] = '\0';
	if (last_code != SC_OK)
		sc_err_format(&call->err, last_text, sizeof(last_text));
	sc_arena_release(&call->arena);
	uselocale(call->caller);
}

static void leave_loaded(struct sc_api_loaded *loaded)
{
	if (atomic_fetch_sub(&loaded->n_users, 1) != 1)
		return;
	sc_catalog_destroy(loaded->catalog);
	sc_arena_release(&loaded->arena);
	free(loaded);
}

static stepcast_request *request_create(struct sc_api_loaded *loaded)
{
	stepcast_request *request = sc_xcalloc(1, sizeof(*request));

	atomic_fetch_add(&loaded->n_users, 1);
	request->loaded = loaded;
	request->config = loaded->config;
	sc_arena_init(&request->arena, BLOCK_BYTES);
	return request;
}

static int load_config(const char *text, const char *name, struct sc_api_loaded *to,
		       struct sc_err *err)
{
	const char *file = sc_arena_strdup(&to->arena, name);
	struct sc_yaml *root;
	int rc;

	if (!text)
		return sc_config_load(file, &to->arena, &to->config, err);
	rc = sc_yaml_parse(
		&(struct sc_source){sc_arena_strdup(&to->arena, text), strlen(text), file},
		&to->arena, &root, err);
	return rc ? rc : sc_config_take(root, &to->arena, &to->config, err);
}

/* The config is the text, or, if that is NULL, the file `name`. */
static stepcast_request *request_load(const char *text, const char *name)
{
	struct sc_api_loaded *loaded = sc_xcalloc(1, sizeof(*loaded));
	stepcast_request *request = NULL;
	struct sc_api_call call;

	sc_api_enter(&call);
	atomic_init(&loaded->n_users, 1);
	sc_arena_init(&loaded->arena, BLOCK_BYTES);
	loaded->catalog = sc_catalog_create();
	if (load_config(text, name, loaded, &call.err) == 0)
		request = request_create(loaded);
	leave_loaded(loaded);
	sc_api_leave(&call);
	return request;
}

static stepcast_request *refuse_null(const char *what)
{
	struct sc_api_call call;

	sc_api_enter(&call);
	sc_err_set(&call.err, SC_EUSAGE, "a request needs a %s, got NULL", what);
	sc_api_leave(&call);
	return NULL;
}

stepcast_request *stepcast_request_file(const char *path)
{
	return path ? request_load(NULL, path) : refuse_null("path");
}

stepcast_request *stepcast_request_text(const char *text, const char *name)
{
	return text ? request_load(text, name ? name : "config") : refuse_null("text");
}

static int request_set(stepcast_request *request, const char *key, const char *value,
		       struct sc_err *err)
{
	const struct sc_api_setting own = {sc_arena_strdup(&request->arena, key),
					   sc_arena_strdup(&request->arena, value)};
	int rc = sc_config_set(&request->config, &(struct sc_setting){own.key, own.value, "--set"},
			       &request->arena, err);

	if (rc == 0)
		SC_VEC_PUSH(&request->settings, own);
	return rc;
}

int stepcast_request_set(stepcast_request *request, const char *key, const char *value)
{
	struct sc_api_call call;
	int rc;

	if (!request)
		return -1;
	sc_api_enter(&call);
	rc = request_set(request, key, value, &call.err);
	sc_api_leave(&call);
	return rc ? -1 : 0;
}

stepcast_request *stepcast_request_copy(const stepcast_request *request)
{
	stepcast_request *copy;
	struct sc_api_call call;
	int rc = 0;

	if (!request)
		return NULL;
	copy = request_create(request->loaded);
	sc_api_enter(&call);
	for (size_t i = 0; i < request->settings.n && rc == 0; i++)
		rc = request_set(copy, request->settings.at[i].key, request->settings.at[i].value,
				 &call.err);
	sc_api_leave(&call);
	if (rc == 0)
		return copy;
	stepcast_request_free(copy);
	return NULL;
}

void stepcast_request_free(stepcast_request *request)
{
	if (!request)
		return;
	leave_loaded(request->loaded);
	sc_arena_release(&request->arena);
	SC_VEC_RELEASE(&request->settings);
	free(request);
}
