/* Predictions and recordings side by side, as text and JSON: values that differ, times by owner,
 * critical paths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/search.h"
#include "base/units.h"
#include "report/config_show.h"
#include "report/forms.h"
#include "report/parts.h"
#include "study/compare/compare.h"

enum { COMPARE_VERSION = 1, MAX_PATH = 96, MAX_PATH_LINES = 12, LABEL_WIDTH = 26 };
/* Shares of an iteration below this differ by nothing that one reads; so do iterations. */
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

static void compare_config_field(const struct walk *w, const struct sc_field *field, size_t offset,
				 const char *path)
{
	struct sc_strbuf values[SC_COMPARE_MAX] = {{0}};
	const char *first = NULL;
	bool same = true;

	for (size_t i = 0; i < w->compare->n; i++) {
		const struct sc_compared *c = &w->compare->at[i];
		const void *place;
		bool named;

		if (!c->config) { /* a recording */
			sc_strbuf_append(&values[i], "-");
			continue;
		}
		place = (const unsigned char *)&c->by->request.config + offset;
		named = field->type == SC_F_ENUM && sc_enum_name(field->names, *(const int *)place);
		if (sc_field_is_absent(field, place) && field->type != SC_F_BOOL && !named)
			sc_strbuf_append(&values[i], "-");
		else
			sc_config_show_value(field, place, &values[i]);
		first = first ? first : sc_strbuf_get(&values[i]);
		same &= strcmp(sc_strbuf_get(&values[i]), first) == 0;
	}
	if (!same)
		w->differs(w->ctx, path, values);
	for (size_t i = 0; i < w->compare->n; i++)
		sc_strbuf_release(&values[i]);
}

static void walk_fields(const struct walk *w, const struct sc_field *table, size_t base,
			const char *prefix)
{
	for (const struct sc_field *f = table; f->key; f++) {
		char path[MAX_PATH];

		snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", f->key);
		if (f->type == SC_F_IGNORE || strcmp(f->key, "notes") == 0 ||
		    strcmp(f->key, "measured_ms") == 0 || strcmp(f->key, "schema") == 0)
			continue; /* no prediction reads it */
		if (f->type == SC_F_STRUCT)
			walk_fields(w, f->sub, base + f->offset, path);
		else
			compare_config_field(w, f, base + f->offset, path);
	}
}

/* ---- text ---- */

static void put_difference(void *ctx, const char *path, const struct sc_strbuf *values)
{
	const struct walk *w = ctx;

	sc_strbuf_printf(w->text, "  %-*s", LABEL_WIDTH, path);
	for (size_t i = 0; i < w->compare->n; i++)
		sc_strbuf_printf(w->text, " %15.40s", sc_strbuf_get(&values[i]));
	sc_strbuf_append(w->text, "\n");
}

/* Values of all, the first's then the others'. */
struct row {
	const char *label;
	double at[SC_COMPARE_MAX];
};

/* The digits after the point that people read of a number so large. */
static int n_after(double value)
{
	return fabs(value - round(value)) < 1e-9 ? 0 : fabs(value) < 10 ? 4 : 2;
}

static void put_compare_row(const struct sc_compare *compare, const struct row *row,
			    struct sc_strbuf *out)
{
	const double more = compare->n == 2 ? row->at[1] - row->at[0] : 0; /* NAN: not known */

	if (strlen(row->label) > LABEL_WIDTH) /* whole: names of kernels differ anywhere */
		sc_strbuf_printf(out, "  %s\n  %*s", row->label, LABEL_WIDTH, "");
	else
		sc_strbuf_printf(out, "  %-*s", LABEL_WIDTH, row->label);
	for (size_t i = 0; i < compare->n; i++)
		sc_text_known(row->at[i], 15, n_after(row->at[i]), out);
	if (fabs(more) > 0)
		sc_strbuf_printf(out, " %+10.*f", n_after(more), more);
	if (fabs(more) > 0 && row->at[0] > 0)
		sc_strbuf_printf(out, " %+6.*f %%", fabs(more) < 10 * row->at[0],
				 SC_PCT * more / row->at[0]);
	sc_strbuf_append(out, "\n");
}

/* The unit for the times of all. */
static struct sc_time_unit unit_of(const struct sc_compare *compare)
{
	double most = 0;

	for (size_t i = 0; i < compare->n; i++)
		most = fmax(most, compare->at[i].ms);
	return sc_time_unit_of(most);
}

/* Times in ms, if one is more than dust. */
static void put_share(const struct sc_compare *compare, const struct row *row,
		      struct sc_strbuf *out)
{
	struct row shown = *row;
	bool any = false;

	for (size_t i = 0; i < compare->n; i++) {
		any |= row->at[i] > LEAST_SHARE * compare->at[i].reading->iteration_ms;
		shown.at[i] /= unit_of(compare).ms;
	}
	if (any)
		put_compare_row(compare, &shown, out);
}

enum whose { OF_ALL, OF_CONFIGS, OF_RECORDINGS };

/* A double at an offset of struct sc_compared, or of a config's prediction. */
static struct row row_of(const struct sc_compare *compare, const char *label, enum whose whose,
			 size_t offset)
{
	struct row row = {.label = label};

	for (size_t i = 0; i < compare->n; i++) {
		const struct sc_compared *c = &compare->at[i];
		const char *from = whose == OF_ALL || !c->config ? (const char *)c : NULL;

		if (whose == OF_CONFIGS)
			from = c->by ? (const char *)&c->by->prediction : NULL;
		row.at[i] = NAN;
		if (from)
			memcpy(&row.at[i], from + offset, sizeof(row.at[i]));
	}
	return row;
}

static void put_member(const struct sc_compare *compare, const char *label, enum whose whose,
		       size_t offset, struct sc_strbuf *out)
{
	const struct row row = row_of(compare, label, whose, offset);

	put_compare_row(compare, &row, out);
}
#define AT(member) offsetof(struct sc_compared, member)
#define PREDICTED(member) offsetof(struct sc_prediction, member)

static double owner_ms(const struct sc_compared *c, int owner)
{
	return sc_without_dust(c->reading->breakdown_ms[owner], c->reading->iteration_ms);
}

/* A kernel or wait on the critical paths, whichever rank it is of. */
struct on_paths {
	const char *name;
	double ms[SC_COMPARE_MAX], spread;
};

SC_COMPARE(by_spread, struct on_paths,
	   2 * SC_ORDER(b->spread, a->spread) + SC_ORDER(strcmp(a->name, b->name), 0));

/* All, those that differ most first. */
static struct on_paths *list_on_paths(const struct sc_compare *compare, size_t *n_out)
{
	struct on_paths *all =
		sc_arena_calloc(compare->arena, compare->n * SC_MAX_CONTRIBUTORS, sizeof(*all));
	size_t n = 0;

	for (size_t i = 0; i < compare->n; i++) {
		const struct sc_reading *r = compare->at[i].reading;

		for (size_t k = 0; k < r->n_contributors; k++) {
			const char *what = r->contributors[k].what, *of = strstr(what, " of rank ");
			const size_t n_name = of ? (size_t)(of - what) : strlen(what);
			size_t a = 0;

			while (a < n && (strlen(all[a].name) != n_name ||
					 memcmp(all[a].name, what, n_name) != 0))
				a++;
			if (a == n)
				all[n++].name = sc_arena_strndup(compare->arena, what, n_name);
			all[a].ms[i] += r->contributors[k].ms;
		}
	}
	for (size_t k = 0; k < n; k++) {
		double least = all[k].ms[0], most = least;

		for (size_t i = 1; i < compare->n; i++) {
			least = fmin(least, all[k].ms[i]);
			most = fmax(most, all[k].ms[i]);
		}
		all[k].spread = most - least;
	}
	SC_SORT(all, n, by_spread);
	*n_out = n;
	return all;
}

static void put_paths(const struct sc_compare *compare, struct sc_strbuf *out)
{
	size_t n;
	const struct on_paths *all = list_on_paths(compare, &n);

	sc_strbuf_printf(out, "\non the critical path, %s; what differs most first\n",
			 unit_of(compare).name);
	for (size_t k = 0; k < n && k < MAX_PATH_LINES; k++) {
		struct row row = {.label = all[k].name};

		memcpy(row.at, all[k].ms, sizeof(row.at));
		put_share(compare, &row, out);
	}
}

static void put_recordings(const struct sc_compare *compare, struct sc_strbuf *out)
{
	struct row gpus = {.label = "gpus"}, ranks = {.label = "ranks recorded"},
		   iterations = {.label = "iterations recorded"},
		   slowest = {.label = "slowest rank, over others"};

	for (size_t i = 0; i < compare->n; i++) {
		const struct sc_compared *c = &compare->at[i];
		const struct sc_replay_result *r = c->config ? NULL : &c->recording;

		gpus.at[i] = (double)(r ? r->gpus : c->by->request.config.gpus);
		ranks.at[i] = r ? (double)r->n_ranks : (double)NAN;
		iterations.at[i] = r ? (double)r->iterations.n : (double)NAN;
		slowest.at[i] = (double)NAN; /* of one rank */
		for (size_t k = 0; r && k < r->ranks.n; k++)
			slowest.at[i] = fmax(slowest.at[i], r->ranks.at[k].slowness);
	}
	put_compare_row(compare, &gpus, out);
	put_compare_row(compare, &ranks, out);
	put_compare_row(compare, &iterations, out);
	put_compare_row(compare, &slowest, out);
}

/* It takes as long as the first, in every draw. */
static bool is_equal(const struct sc_compared *c)
{
	return fabs(c->ratio - 1) < LEAST_SHARE &&
	       (isnan(c->low_ratio) || c->high_ratio - c->low_ratio < LEAST_SHARE);
}

static void put_verdict(const struct sc_compare *compare, struct sc_strbuf *out)
{
	const char *drawn = compare->n_recordings == 0 ? "model error"
			    : compare->n_recordings < compare->n
				    ? "model error and recorded iterations"
				    : "recorded iterations";

	for (size_t i = 1; i < compare->n; i++) {
		const struct sc_compared *c = &compare->at[i];

		if (is_equal(c)) {
			sc_strbuf_printf(out, "%s takes as long as %s\n", c->label,
					 compare->at[0].label);
			continue;
		}
		if (isnan(c->p_faster)) {
			sc_strbuf_printf(
				out,
				"%s takes %.4g times as long as %s; a recording of one iteration "
				"has no band\n",
				c->label, c->ratio, compare->at[0].label);
			continue;
		}
		sc_strbuf_printf(
			out,
			"%s takes %.4g times as long as %s (%d %% band %.4g to %.4g); it is faster in "
			"%.0f %% of %d draws of %s\n",
			c->label, c->ratio, compare->at[0].label, compare->confidence_pct,
			c->low_ratio, c->high_ratio, 100 * c->p_faster, SC_COMPARE_DRAWS, drawn);
	}
}

/* Names that are wider than a column stand above the table, whole, by number: cut, two of them may
 * look alike. */
static void put_heads(const struct sc_compare *compare, struct sc_strbuf *out)
{
	enum { COLUMN = 15 };
	bool are_short = true;

	for (size_t i = 0; i < compare->n; i++)
		are_short = are_short && strlen(compare->at[i].label) <= COLUMN;
	for (size_t i = 0; i < compare->n && !are_short; i++)
		sc_strbuf_printf(out, "[%zu] %s\n", i + 1, compare->at[i].label);
	sc_strbuf_printf(out, "%-*s", LABEL_WIDTH + 2, "what differs");
	for (size_t i = 0; i < compare->n; i++) {
		char number[24];

		snprintf(number, sizeof(number), "[%zu]", i + 1);
		sc_strbuf_printf(out, " %*s", COLUMN, are_short ? compare->at[i].label : number);
	}
	sc_strbuf_append(out, compare->n == 2 ? " difference\n" : "\n");
}

static void put_compare_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_compare *compare = result;
	struct walk walk = {.compare = compare, .differs = put_difference, .text = out};
	struct sc_strbuf head = {0};
	struct row time;

	sc_strbuf_printf(&head, "iteration, %s", unit_of(compare).name);
	walk.ctx = &walk;
	for (size_t i = 0; i < compare->n; i++) {
		const struct sc_compared *c = &compare->at[i];

		if (!c->config || sc_memory_fullness(&c->by->prediction.memory) <= 1)
			continue;
		sc_text_memory(&c->by->prediction.memory, out);
		sc_strbuf_printf(out, " (%s)\n", c->label);
	}
	put_heads(compare, out);
	if (compare->n_recordings)
		put_recordings(compare, out);
	walk_fields(&walk, sc_config_fields, 0, "");
	sc_strbuf_append(out, "\ntime\n");
	time = row_of(compare, sc_strbuf_get(&head), OF_ALL, AT(ms));
	put_share(compare, &time, out);
	sc_strbuf_release(&head);
	if (compare->n_recordings < compare->n) {
		struct row mfu = row_of(compare, "MFU, %", OF_CONFIGS, PREDICTED(mfu));

		for (size_t i = 0; i < compare->n; i++)
			mfu.at[i] *= SC_PCT;
		put_member(compare, "samples/s", OF_CONFIGS, PREDICTED(samples_per_s), out);
		put_compare_row(compare, &mfu, out);
	}
	sc_strbuf_printf(out, "\nof the busiest GPU, %s\n", unit_of(compare).name);
	for (int o = 0; o < SC_N_OWNERS; o++) {
		struct row row = {.label = sc_owner_labels[o]};

		for (size_t i = 0; i < compare->n; i++)
			row.at[i] = owner_ms(&compare->at[i], o);
		put_share(compare, &row, out);
	}
	if (compare->n_recordings)
		sc_strbuf_printf(out, "\nkernels of a rank, %s\n", unit_of(compare).name);
	for (int f = 0; f < SC_N_KERNEL_FAMILIES && compare->n_recordings; f++) {
		const struct row row =
			row_of(compare, sc_kernel_family_name((enum sc_kernel_family)f),
			       OF_RECORDINGS, AT(recording.family_ms[f]));

		put_share(compare, &row, out);
	}
	if (compare->n_recordings == compare->n)
		put_paths(compare, out);
	if (compare->n_recordings < compare->n) {
		sc_strbuf_append(out, "\nmemory of a GPU, GiB\n");
		for (size_t part = 0; part < SC_N_MEMORY_PARTS; part++)
			put_member(compare, sc_memory_parts[part].name, OF_CONFIGS,
				   PREDICTED(memory) + sc_memory_parts[part].offset, out);
		put_member(compare, "total", OF_CONFIGS, PREDICTED(memory.total_gib), out);
		put_member(compare, "capacity", OF_CONFIGS, PREDICTED(memory.capacity_gib), out);
	}
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

static void add_compared(const struct sc_compared *c, struct sc_json *json, json_t *object)
{
	json_t *owners = sc_json_object(json, object, "breakdown_ms"), *families;
	const struct sc_prediction *p = c->by ? &c->by->prediction : NULL;
	struct sc_strbuf cluster = {0};

	sc_json_text(json, object, c->config ? "config" : "recording", c->label);
	if (c->config) {
		sc_text_cluster(&c->by->request.config,
				sc_request_n_kinds(&c->by->request) == 1 ? c->by->request.device.id
									 : NULL,
				&cluster);
		sc_json_text(json, object, "cluster", sc_strbuf_get(&cluster));
		sc_strbuf_release(&cluster);
		SC_JSON_PUT(json, object, *p, low_ms, high_ms, samples_per_s, mfu);
		sc_json_real(json, object, "memory_gib", p->memory.total_gib);
		sc_json_real(json, object, "capacity_gib", p->memory.capacity_gib);
		sc_json_bool(json, object, "fits", sc_memory_fullness(&p->memory) <= 1);
	} else {
		families = sc_json_object(json, object, "kernels_ms");
		sc_json_int(json, object, "gpus", c->recording.gpus);
		sc_json_int(json, object, "ranks", c->recording.n_ranks);
		sc_json_int(json, object, "iterations", (int64_t)c->recording.iterations.n);
		for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
			sc_json_real(json, families,
				     sc_kernel_family_name((enum sc_kernel_family)f),
				     c->recording.family_ms[f]);
	}
	sc_json_real(json, object, "iteration_ms", c->ms);
	sc_json_real(json, object, "ratio", c->ratio);
	SC_JSON_KNOWN(json, object, *c, low_ratio, high_ratio, p_faster);
	for (int o = 0; o < SC_N_OWNERS; o++)
		sc_json_real(json, owners, sc_owner_names[o], owner_ms(c, o));
}

/* A config that does not fit is named before any time. */
static void add_compare_verdict(struct sc_json *json, const struct sc_compare *compare)
{
	const struct sc_compared *least = &compare->at[0];
	struct sc_strbuf text = {0}, on = {0};
	enum sc_standing standing;
	bool equal = true;

	for (size_t i = 0; i < compare->n; i++) {
		const struct sc_compared *c = &compare->at[i];

		if (c->config && sc_memory_fullness(&c->by->prediction.memory) > 1)
			sc_strbuf_printf(&text, "Does not fit the memory: %s. ", c->label);
		least = c->ms < least->ms ? c : least;
		equal &= is_equal(c);
	}
	standing = text.n                           ? SC_STANDS_BADLY
		   : compare->like_models && !equal ? SC_STANDS_WELL
						    : SC_STANDS;
	if (least->config)
		sc_text_cluster(&least->by->request.config,
				sc_request_n_kinds(&least->by->request) == 1
					? least->by->request.device.id
					: NULL,
				&on);
	else
		sc_strbuf_printf(&on, "%lld %s%s", (long long)least->recording.gpus,
				 least->recording.gpu ? "x " : "GPUs",
				 least->recording.gpu ? least->recording.gpu : "");
	sc_strbuf_printf(&text,
			 !compare->like_models ? "Unlike models: their times say nothing of the "
						 "machine or the split; compare MFU. %s takes "
			 : equal               ? "All take as long as %s: "
					       : "The fastest is %s: ",
			 least->label);
	sc_text_ms(least->ms, &text);
	sc_strbuf_printf(&text, ", %s on %s.", least->config ? "predicted" : "recorded",
			 sc_strbuf_get(&on));
	sc_json_verdict(json, standing, "%s", sc_strbuf_get(&text));
	sc_strbuf_release(&on);
	sc_strbuf_release(&text);
}

static void put_compare_json(const void *result, struct sc_json *json)
{
	const struct sc_compare *compare = result;
	struct walk walk = {.compare = compare, .differs = add_difference, .json = json};
	const struct on_paths *all = NULL;
	json_t *configs, *paths = NULL;
	size_t n = 0;

	walk.ctx = &walk;
	sc_json_init(json, "stepcast/compare", COMPARE_VERSION);
	add_compare_verdict(json, compare);
	sc_json_bool(json, json->root, "like_models", compare->like_models);
	walk.object = sc_json_object(json, json->root, "differs");
	walk_fields(&walk, sc_config_fields, 0, "");
	if (compare->n_recordings == compare->n) {
		paths = sc_json_array(json, json->root, "path_ms");
		all = list_on_paths(compare, &n);
	}
	for (size_t k = 0; k < n; k++) {
		json_t *object = sc_json_object(json, paths, NULL), *ms;

		sc_json_text(json, object, "what", all[k].name);
		ms = sc_json_array(json, object, "ms");
		for (size_t i = 0; i < compare->n; i++)
			sc_json_real(json, ms, NULL, all[k].ms[i]);
	}
	configs = sc_json_array(json, json->root, "configs");
	for (size_t i = 0; i < compare->n; i++)
		add_compared(&compare->at[i], json, sc_json_object(json, configs, NULL));
}

const struct sc_forms sc_compare_forms = {.json = put_compare_json, .text = put_compare_text};
