/* Names of coefficients: any number of a software or device profile, found by the field tables. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/strbuf.h"
#include "study/fit/fit_iterations_priv.h"

#define SPAN_LOG 6.9 /* a factor 1000 either way, where the field's own limits are wider */

struct profile {
	const char *id;
	const void *object;
};
struct binder {
	struct profile *software, *devices; /* of the rows, by first appearance */
	size_t n_software, n_devices;
	struct sc_arena *arena;
	struct sc_err *err;
};

static void add_profile(struct profile *list, size_t *n, const char *id, const void *object)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(list[i].id, id) == 0)
			return;
	list[(*n)++] = (struct profile){id, object};
}

static void list_profiles(const struct sc_itfit_problem *problem, struct binder *out)
{
	size_t n = problem->n_requests;

	out->software = sc_arena_calloc(out->arena, n, sizeof(*out->software));
	out->devices = sc_arena_calloc(out->arena, n * SC_MAX_GPU_KINDS, sizeof(*out->devices));
	for (size_t i = 0; i < n; i++) {
		const struct sc_request *req = &problem->requests[i];

		add_profile(out->software, &out->n_software, req->software.id, &req->software);
		for (size_t k = 0; k < sc_request_n_kinds(req); k++) {
			const struct sc_device *dev = sc_request_device(req, k);

			add_profile(out->devices, &out->n_devices, dev->id, dev);
		}
	}
}

/* A name taken apart. */
struct target {
	bool of_device;
	const struct profile *profile;
	const char *path; /* of the field */
};

/* Ids may have dots: the one that the text begins with. */
static int find_named(const struct binder *b, const char *name, const char *text,
		      struct target *out)
{
	const struct profile *list = out->of_device ? b->devices : b->software;
	size_t n = out->of_device ? b->n_devices : b->n_software;
	struct sc_strbuf ids = {0};
	int rc;

	for (size_t i = 0; i < n; i++) {
		size_t n_id = strlen(list[i].id);

		sc_strbuf_printf(&ids, "%s%s", i ? ", " : "", list[i].id);
		if (strncmp(text, list[i].id, n_id) != 0 || text[n_id] != '.')
			continue;
		out->profile = &list[i];
		out->path = text + n_id + 1;
	}
	rc = out->profile
		     ? 0
		     : sc_err_set(b->err, SC_EUSAGE, "--coef %.64s: the rows have the %s %.128s",
				  name, out->of_device ? "GPUs" : "software", sc_strbuf_get(&ids));
	sc_strbuf_release(&ids);
	return rc;
}

static int find_only(const struct binder *b, const char *name, const char *text, struct target *out)
{
	const struct profile *list = out->of_device ? b->devices : b->software;
	size_t n = out->of_device ? b->n_devices : b->n_software;
	const char *kind = out->of_device ? "device" : "software";

	if (n > 1)
		return sc_err_set(b->err, SC_EUSAGE,
				  "--coef %.64s: the rows have %zu %s profiles, %.40s and %.40s "
				  "among them; say whose, as %s:%.40s.%.40s, or choose rows",
				  name, n, kind, list[0].id, list[1].id, kind, list[0].id, text);
	out->profile = &list[0];
	out->path = text;
	return 0;
}

static int parse_name(const struct binder *b, const char *name, struct target *out)
{
	static const char *const kinds[] = {"software", "device"};

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(kinds[i]);

		if (strncmp(name, kinds[i], n) != 0)
			continue;
		*out = (struct target){.of_device = i == 1};
		if (name[n] == ':')
			return find_named(b, name, name + n + 1, out);
		if (name[n] == '.')
			return find_only(b, name, name + n + 1, out);
	}
	return sc_err_set(b->err, SC_EUSAGE,
			  "--coef %.64s: expected software.FIELD or device.SECTION.FIELD", name);
}

static int find_field(const struct binder *b, const char *name, const struct target *target,
		      struct sc_field_place *out)
{
	const struct sc_field *table = target->of_device ? sc_device_fields : sc_software_fields;
	const char *near;

	*out = sc_field_find(table, target->path, b->arena);
	near = out->nearest;
	if (!out->field)
		return sc_err_set(b->err, SC_EUSAGE, "--coef %.64s: no field \"%.64s\"%s%.64s%s",
				  name, target->path, near ? "; did you mean \"" : "",
				  near ? near : "", near ? "\"?" : "");
	if (out->field->type != SC_F_DOUBLE)
		return sc_err_set(b->err, SC_EUSAGE,
				  "--coef %.64s: only numbers that are not counts can be fitted",
				  name);
	return 0;
}

static int set_range(const struct binder *b, const struct sc_itfit_name *name,
		     const struct sc_field *field, struct sc_itfit_coef *coef)
{
	bool limited = field->min < field->max;

	coef->start = isnan(name->start) ? coef->old : name->start;
	if (limited && (coef->start < field->min || coef->start > field->max) &&
	    !isnan(name->start))
		return sc_err_set(b->err, SC_EUSAGE,
				  "--coef %.64s=%g: expected a start from %g to %g", name->name,
				  name->start, field->min, field->max);
	if (!(coef->start > 0))
		return sc_err_set(b->err, SC_EUSAGE,
				  "--coef %.64s: it is %g in the profile, and the search is by "
				  "factors; give a start, as %.64s=0.5",
				  name->name, coef->start, name->name);
	coef->lower = coef->start * exp(-SPAN_LOG);
	coef->upper = coef->start * exp(SPAN_LOG);
	if (limited) {
		coef->lower = fmax(coef->lower, field->min);
		coef->upper = fmin(coef->upper, field->max);
	}
	return 0;
}

static int bind_one(const struct binder *b, const struct sc_itfit_name *name,
		    struct sc_itfit_coef *coef, struct sc_itfit_param *param)
{
	struct sc_field_place place = {0};
	struct target target = {0};
	size_t offset;
	int rc = parse_name(b, name->name, &target);

	if (rc == 0)
		rc = find_field(b, name->name, &target, &place);
	if (rc)
		return rc;
	assert(target.profile);
	offset = place.base_offset + place.field->offset;
	*coef = (struct sc_itfit_coef){.of_device = target.of_device,
				       .id = target.profile->id,
				       .field = target.path,
				       .left_out_lowest = (double)NAN,
				       .left_out_highest = (double)NAN};
	memcpy(&coef->old, (const char *)target.profile->object + offset, sizeof(coef->old));
	rc = set_range(b, name, place.field, coef);
	if (rc)
		return rc;
	*param = (struct sc_itfit_param){.of_device = coef->of_device,
					 .id = coef->id,
					 .offset = offset,
					 .start = log(coef->start),
					 .lower = log(coef->lower),
					 .upper = log(coef->upper)};
	return 0;
}

static bool is_same(const struct sc_itfit_param *a, const struct sc_itfit_param *b)
{
	return a->of_device == b->of_device && a->offset == b->offset && strcmp(a->id, b->id) == 0;
}

int sc_itfit_coefs_bind(struct sc_itfit_problem *problem, const struct sc_itfit_opts *opts,
			struct sc_arena *arena, struct sc_itfit_coef *coefs, struct sc_err *err)
{
	struct binder binder = {.arena = arena, .err = err};
	int rc = 0;

	if (opts->n_coefs < 1 || opts->n_coefs > SC_ITFIT_MAX_COEFS)
		return sc_err_set(err, SC_EUSAGE, "--coef: name 1 to %d coefficients",
				  SC_ITFIT_MAX_COEFS);
	list_profiles(problem, &binder);
	for (size_t i = 0; i < opts->n_coefs && rc == 0; i++) {
		rc = bind_one(&binder, &opts->coefs[i], &coefs[i], &problem->params[i]);
		for (size_t j = 0; j < i && rc == 0; j++)
			if (is_same(&problem->params[i], &problem->params[j]))
				rc = sc_err_set(err, SC_EUSAGE, "--coef: %.64s is given twice",
						opts->coefs[i].name);
	}
	problem->n_params = opts->n_coefs;
	return rc;
}
