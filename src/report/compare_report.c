#include "report/compare_report.h"

#include <string.h>

#include "base/json_out.h"
#include "report/config_show.h"
#include "report/labels.h"

enum { COMPARE_VERSION = 1, MAX_PATH = 96 };
/* Shares of an iteration below this differ by nothing that one reads. */
#define LEAST_SHARE 5e-4

/* ---- what differs in the configs ---- */

/* Called with a key that not all have alike, and the values. */
typedef void (*differ_fn)(void *ctx, const char *path, const struct sc_strbuf *values);
struct walk {
	const struct sc_compare *compare;
	differ_fn differs;
	void *ctx;
	struct sc_strbuf *text; /* or */
	struct sc_json *json;
	json_t *object;
};

static const void *place_of(const struct walk *w, size_t i, size_t offset)
{
	return (const unsigned char *)&w->compare->at[i].request.config + offset;
}

static void value_of(const struct sc_field *field, const void *place, struct sc_strbuf *out)
{
	bool named = field->type == SC_F_ENUM && sc_enum_name(field->names, *(const int *)place);

	if (sc_field_is_absent(field, place) && field->type != SC_F_BOOL && !named)
		sc_strbuf_append(out, "-");
	else
		sc_config_show_value(field, place, out);
}

static void compare_field(const struct walk *w, const struct sc_field *field, size_t offset,
			  const char *path)
{
	struct sc_strbuf values[SC_COMPARE_MAX] = {{0}};
	bool same = true;

	for (size_t i = 0; i < w->compare->n; i++) {
		value_of(field, place_of(w, i, offset), &values[i]);
		same &= strcmp(sc_strbuf_get(&values[i]), sc_strbuf_get(&values[0])) == 0;
	}
	if (!same)
		w->differs(w->ctx, path, values);
	for (size_t i = 0; i < w->compare->n; i++)
		sc_strbuf_release(&values[i]);
}

/* Keys that no prediction reads. */
static bool is_note(const char *key)
{
	return strcmp(key, "notes") == 0 || strcmp(key, "measured_ms") == 0 ||
	       strcmp(key, "schema") == 0;
}

static void walk_fields(const struct walk *w, const struct sc_field *table, size_t base,
			const char *prefix)
{
	for (const struct sc_field *f = table; f->key; f++) {
		char path[MAX_PATH];

		snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", f->key);
		if (f->type == SC_F_IGNORE || is_note(f->key))
			continue;
		if (f->type == SC_F_STRUCT)
			walk_fields(w, f->sub, base + f->offset, path);
		else
			compare_field(w, f, base + f->offset, path);
	}
}

/* ---- text ---- */

static const char *short_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void put_difference(void *ctx, const char *path, const struct sc_strbuf *values)
{
	const struct walk *w = ctx;

	sc_strbuf_printf(w->text, "  %-30s", path);
	for (size_t i = 0; i < w->compare->n; i++)
		sc_strbuf_printf(w->text, " %16.40s", sc_strbuf_get(&values[i]));
	sc_strbuf_append(w->text, "\n");
}

/* Values of all, the first's then the others'. */
struct row {
	const char *label;
	double at[SC_COMPARE_MAX];
};

static void put_row(const struct sc_compare *compare, const struct row *row, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "  %-30s", row->label);
	for (size_t i = 0; i < compare->n; i++)
		sc_strbuf_printf(out, " %16.6g", row->at[i]);
	sc_strbuf_append(out, "\n");
}

static void put_owners(const struct sc_compare *compare, struct sc_strbuf *out)
{
	for (int o = 0; o < SC_N_OWNERS; o++) {
		struct row row = {.label = sc_owner_label((enum sc_owner)o)};
		bool shown = false;

		for (size_t i = 0; i < compare->n; i++) {
			const struct sc_prediction *p = &compare->at[i].prediction;

			row.at[i] = sc_without_dust(p->reading.breakdown_ms[o], p->iteration_ms);
			shown |= row.at[i] > LEAST_SHARE * p->iteration_ms;
		}
		if (shown)
			put_row(compare, &row, out);
	}
}

static void put_memory(const struct sc_compare *compare, struct sc_strbuf *out)
{
	struct row total = {.label = "total"}, capacity = {.label = "capacity"};

	for (size_t part = 0; part < SC_N_MEMORY_PARTS; part++) {
		struct row row = {.label = sc_memory_parts[part].name};

		for (size_t i = 0; i < compare->n; i++)
			row.at[i] = sc_memory_part_gib(&compare->at[i].prediction.memory, part);
		put_row(compare, &row, out);
	}
	for (size_t i = 0; i < compare->n; i++) {
		total.at[i] = compare->at[i].prediction.memory.total_gib;
		capacity.at[i] = compare->at[i].prediction.memory.capacity_gib;
	}
	put_row(compare, &total, out);
	put_row(compare, &capacity, out);
}

static void put_verdict(const struct sc_compare *compare, struct sc_strbuf *out)
{
	for (size_t i = 1; i < compare->n; i++) {
		const struct sc_compared *c = &compare->at[i];

		sc_strbuf_printf(
			out,
			"%s takes %.4g times as long as %s (80 %% band %.4g to %.4g); it is faster in "
			"%.0f %% of %d draws of model error\n",
			short_name(c->name), c->ratio, short_name(compare->at[0].name),
			c->low_ratio, c->high_ratio, 100 * c->p_faster, SC_COMPARE_DRAWS);
	}
}

static void put_times(const struct sc_compare *compare, struct sc_strbuf *out)
{
	struct row ms = {.label = "iteration, ms"}, rate = {.label = "samples/s"},
		   mfu = {.label = "MFU, %"};

	for (size_t i = 0; i < compare->n; i++) {
		const struct sc_prediction *p = &compare->at[i].prediction;

		ms.at[i] = p->iteration_ms;
		rate.at[i] = p->samples_per_s;
		mfu.at[i] = 100 * p->mfu;
	}
	put_row(compare, &ms, out);
	put_row(compare, &rate, out);
	put_row(compare, &mfu, out);
}

void sc_compare_to_text(const struct sc_compare *compare, struct sc_strbuf *out)
{
	struct walk walk = {.compare = compare, .differs = put_difference, .text = out};

	walk.ctx = &walk;
	sc_strbuf_printf(out, "%-32s", "what differs");
	for (size_t i = 0; i < compare->n; i++)
		sc_strbuf_printf(out, " %16.16s", short_name(compare->at[i].name));
	sc_strbuf_append(out, "\n");
	walk_fields(&walk, sc_config_fields, 0, "");
	sc_strbuf_append(out, "\ntime\n");
	put_times(compare, out);
	sc_strbuf_append(out, "\nof the busiest GPU, ms\n");
	put_owners(compare, out);
	sc_strbuf_append(out, "\nmemory of a GPU, GiB\n");
	put_memory(compare, out);
	sc_strbuf_append(out, "\n");
	put_verdict(compare, out);
}

/* ---- JSON ---- */

static void add_difference(void *ctx, const char *path, const struct sc_strbuf *values)
{
	const struct walk *w = ctx;
	json_t *array = sc_json_array(w->json, w->object, path);

	for (size_t i = 0; i < w->compare->n; i++)
		sc_json_text(w->json, array, NULL, sc_strbuf_get(&values[i]));
}

static void add_config(const struct sc_compared *c, struct sc_json *json, json_t *object)
{
	const struct sc_prediction *p = &c->prediction;
	json_t *owners = sc_json_object(json, object, "breakdown_ms");

	sc_json_text(json, object, "config", c->name);
	sc_json_real(json, object, "iteration_ms", p->iteration_ms);
	sc_json_real(json, object, "low_ms", p->low_ms);
	sc_json_real(json, object, "high_ms", p->high_ms);
	sc_json_real(json, object, "samples_per_s", p->samples_per_s);
	sc_json_real(json, object, "mfu", p->mfu);
	sc_json_real(json, object, "memory_gib", p->memory.total_gib);
	sc_json_real(json, object, "capacity_gib", p->memory.capacity_gib);
	sc_json_real(json, object, "ratio", c->ratio);
	sc_json_real(json, object, "low_ratio", c->low_ratio);
	sc_json_real(json, object, "high_ratio", c->high_ratio);
	sc_json_real(json, object, "p_faster", c->p_faster);
	for (int o = 0; o < SC_N_OWNERS; o++)
		sc_json_real(json, owners, sc_owner_name((enum sc_owner)o),
			     sc_without_dust(p->reading.breakdown_ms[o], p->iteration_ms));
}

int sc_compare_to_json(const struct sc_compare *compare, FILE *out, struct sc_err *err)
{
	struct sc_json json;
	struct walk walk = {.compare = compare, .differs = add_difference, .json = &json};
	json_t *configs;
	int rc;

	walk.ctx = &walk;
	sc_json_init(&json, "stepcast/compare", COMPARE_VERSION);
	walk.object = sc_json_object(&json, json.root, "differs");
	walk_fields(&walk, sc_config_fields, 0, "");
	configs = sc_json_array(&json, json.root, "configs");
	for (size_t i = 0; i < compare->n; i++)
		add_config(&compare->at[i], &json, sc_json_object(&json, configs, NULL));
	rc = sc_json_write(&json, out, err);
	sc_json_release(&json);
	return rc;
}
