/* Lists the combinations of what is open. A usual value of a key is taken with the values before it
 * in mind: an impossible one is not made a candidate, and the config's own checks refuse the rest.
 */
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/vec.h"
#include "study/search/search_priv.h"

/* Listing looks at the clock once in so many candidates, which take 0.05 s. */
enum { CLOCK_CODES = 1 << 20 };
enum { MAX_AXES = 24, MAX_VALUES = 4096, LONG_SEQ = 4096, MAX_MICRO_BATCH = 64 };

/* Later keys depend on the values of these. */
enum {
	AT_GPUS,
	AT_TP,
	AT_CP,
	AT_PP,
	AT_EP,
	AT_ETP,
	AT_CHUNKS,
	AT_BATCH,
	AT_MICRO,
	AT_SHARDING,
	AT_SEQUENCE,
	N_AT,
	AT_NONE = N_AT
};

struct space {
	struct sc_searching *s;
	struct sc_axis *chosen;
	struct sc_axis axis[MAX_AXES + 1];
	int at[MAX_AXES + 1]; /* which of the above */
	bool asked[MAX_AXES]; /* its values are the user's: taken as they are */
	size_t n;
	int64_t now[N_AT];           /* of the combination at hand */
	SC_VEC(const char *) values; /* of the axis that is made */
	uint64_t *codes;             /* of the first of a tail; in the arena; NULL: counted */
	size_t n_codes;
	struct sc_csv_digit digit[MAX_AXES];
	size_t most;   /* candidates that half of the machine's memory holds */
	size_t tail;   /* from here on no value depends on another: */
	size_t n_tail; /* so many combinations stand behind each code */
};

static void add_int(struct space *sp, int64_t n)
{
	SC_VEC_PUSH(&sp->values, sc_arena_printf(sp->s->arena, "%lld", (long long)n));
}

static void add_divisors(struct space *sp, int64_t n, int64_t most)
{
	for (int64_t i = 1; i <= n && i <= most; i++)
		if (n % i == 0)
			add_int(sp, i);
}

static void add_powers(struct space *sp, int64_t most)
{
	for (int64_t i = 1; i <= most; i *= 2)
		add_int(sp, i);
}

/* ---- usual values ---- */

/* Chunks have as many layers each, or would with the embedding and the output layer counted as two.
 */
static bool share_layers(const struct space *sp, int64_t n_chunks)
{
	int64_t layers = sp->s->facts->config.model.layers;

	return layers % n_chunks == 0 || (layers + 2) % n_chunks == 0;
}

static void usual_tp(struct space *sp)
{
	const struct sc_cluster *c = &sp->s->facts->config.cluster;

	add_divisors(sp, sp->s->facts->config.model.heads,
		     c->scale_up_gpus > c->gpus_per_node ? c->scale_up_gpus : c->gpus_per_node);
}

static void usual_cp(struct space *sp)
{
	int64_t parts = sp->s->facts->config.model.seq / LONG_SEQ;

	add_powers(sp, parts > 1 ? parts : 1);
}

/* The usual pipelines are divisors of the layers, and powers of two that are none. */
static void usual_pp(struct space *sp)
{
	int64_t layers = sp->s->facts->config.model.layers, gpus = sp->now[AT_GPUS];

	for (int64_t i = 1; i <= layers && i <= gpus; i++)
		if (layers % i == 0 || (i & (i - 1)) == 0)
			add_int(sp, i);
}

static void usual_ep(struct space *sp)
{
	int64_t experts = sp->s->facts->config.model.experts;

	add_divisors(sp, experts > 0 ? experts : 1, MAX_VALUES);
}

/* The usual sizes are 1 and tp, those that frameworks have. */
static void usual_etp(struct space *sp)
{
	if (sp->s->facts->config.model.experts > 0)
		usual_tp(sp);
}

static void usual_chunks(struct space *sp)
{
	for (int64_t i = 1; i <= sp->s->facts->config.model.layers; i++)
		if (share_layers(sp, i))
			add_int(sp, i);
}

static void usual_micro(struct space *sp)
{
	add_powers(sp, MAX_MICRO_BATCH);
}

static const char *const SHARDINGS[] = {"none", "zero1", "fsdp", NULL};
static const char *const RECOMPUTES[] = {"none", "selective", "full", NULL};
static const char *const FLAGS[] = {"false", "true", NULL};

/* The keys are in the order in which they are combined; `open`: a key is searched where the config
 * says nothing. */
static const struct key {
	const char *path;
	int at;
	/* One of both gives the values; NULL both: there are only those asked for. */
	void (*usual)(struct space *sp);
	const char *const *texts;
	bool open;
} KEYS[] = {
	{"cluster.gpu", AT_NONE, NULL, NULL, false},
	{"gpus", AT_GPUS, NULL, NULL, false},
	{"training.global_batch", AT_BATCH, NULL, NULL, false},
	{"parallel.tp", AT_TP, usual_tp, NULL, true},
	{"parallel.cp", AT_CP, usual_cp, NULL, true},
	{"parallel.pp", AT_PP, usual_pp, NULL, true},
	{"parallel.ep", AT_EP, usual_ep, NULL, true},
	{"parallel.etp", AT_ETP, usual_etp, NULL, true},
	{"parallel.virtual_stages", AT_CHUNKS, usual_chunks, NULL, true},
	{"parallel.sharding", AT_SHARDING, NULL, SHARDINGS, true},
	{"parallel.sequence_parallel", AT_SEQUENCE, NULL, FLAGS, true},
	{"training.micro_batch", AT_MICRO, usual_micro, NULL, true},
	{"training.recompute", AT_NONE, NULL, RECOMPUTES, true},
};
enum { N_KEYS = sizeof(KEYS) / sizeof(KEYS[0]) };

/* ---- which combinations ---- */

static int64_t replicas(const struct space *sp)
{
	return sp->now[AT_GPUS] / (sp->now[AT_TP] * sp->now[AT_CP] * sp->now[AT_PP]);
}

static bool divides(int64_t a, int64_t b)
{
	return a > 0 && b % a == 0;
}

/* The value goes with those before it; a number that is not given is 1. */
static bool value_goes(const struct space *sp, size_t i, const char *text)
{
	const int64_t *now = sp->now, group = now[AT_TP] * now[AT_CP] * now[AT_PP];

	switch (sp->at[i]) {
	case AT_TP:
	case AT_CP:
		return divides(group, now[AT_GPUS]);
	case AT_PP:
		return divides(group, now[AT_GPUS]) && replicas(sp) <= now[AT_BATCH];
	case AT_EP:
		return divides(now[AT_EP], now[AT_GPUS] / now[AT_PP]);
	case AT_ETP:
		return now[AT_ETP] == 1 || now[AT_ETP] == now[AT_TP];
	case AT_CHUNKS:
		return now[AT_CHUNKS] == 1 ||
		       (now[AT_PP] > 1 && share_layers(sp, now[AT_PP] * now[AT_CHUNKS]));
	case AT_MICRO:
		return divides(replicas(sp) * now[AT_MICRO], now[AT_BATCH]) || now[AT_MICRO] == 1;
	case AT_SHARDING:
		return replicas(sp) > 1 || strcmp(text, "none") == 0;
	case AT_SEQUENCE:
		return now[AT_TP] > 1 || strcmp(text, "false") == 0;
	default:
		return true;
	}
}

static int count_codes(struct space *sp, struct sc_err *err)
{
	sp->n_codes++;
	if (sp->n_codes <= sp->most / sp->n_tail)
		return 0;
	return sc_err_set(err, SC_ELIMIT,
			  "more than %zu candidates, which half of this machine's memory holds; "
			  "fix a key, as --fix parallel.sharding=zero1",
			  sp->most);
}

static int add_code(struct space *sp, uint64_t code, struct sc_err *err)
{
	if ((sp->n_codes + 1) % CLOCK_CODES == 0 && sc_search_is_over(sp->s, 1))
		return sc_err_set(err, SC_ELIMIT,
				  "search: stopped at %zu candidates and more, before any was "
				  "judged; fix a key, as --fix parallel.sharding=zero1",
				  (sp->n_codes + 1) * sp->n_tail);
	sp->codes[sp->n_codes++] = code;
	return 0;
}

static int combine(struct space *sp, size_t i, uint64_t code, struct sc_err *err)
{
	const struct sc_axis *axis = &sp->axis[i];
	const int at = sp->at[i];
	const int64_t before = at != AT_NONE ? sp->now[at] : 0;
	int rc = 0;

	if (i == sp->tail)
		return sp->codes ? add_code(sp, code, err) : count_codes(sp, err);
	for (size_t k = 0; k < axis->n && rc == 0; k++) {
		if (at != AT_NONE && at < AT_SHARDING)
			sc_parse_int(axis->values[k], &sp->now[at]);
		if (sp->asked[i] || value_goes(sp, i, axis->values[k]))
			rc = combine(sp, i + 1, code + k * sp->digit[i].unit, err);
	}
	if (at != AT_NONE)
		sp->now[at] = before;
	return rc;
}

/* Candidates are counted first, so that too many are refused before any is listed. */
static int list_codes(struct space *sp, struct sc_err *err)
{
	int rc;

	sp->n_tail = 1;
	for (sp->tail = sp->n; sp->tail > 0 && sp->at[sp->tail - 1] == AT_NONE; sp->tail--)
		sp->n_tail *= sp->axis[sp->tail - 1].n;
	rc = combine(sp, 0, 0, err);
	if (rc)
		return rc;
	sp->codes = sc_arena_alloc(sp->s->arena, (sp->n_codes + 1) * sizeof(*sp->codes));
	sp->n_codes = 0;
	return combine(sp, 0, 0, err);
}

/* The digits of a row's code, the last axis's the lowest: codes ascend with rows. */
static int number_axes(struct space *sp, struct sc_err *err)
{
	uint64_t unit = 1;

	for (size_t i = sp->n; i-- > 0;) {
		sp->digit[i] = (struct sc_csv_digit){sp->axis[i].values, sp->axis[i].n, unit};
		if (unit > UINT64_MAX / sp->axis[i].n)
			return sc_err_set(err, SC_ELIMIT,
					  "the keys that are searched have more than 2^64 "
					  "combinations; fix some with --fix");
		unit *= sp->axis[i].n;
	}
	sp->most = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 2 /
		   (sizeof(uint64_t) + sizeof(struct sc_search_row));
	if (sp->most >= SC_SEARCH_NONE) /* rows are told by 32 bits */
		sp->most = SC_SEARCH_NONE - 1;
	return 0;
}

/* ---- what is open ---- */

/* Reads the user's words on keys, each told once: values, or none where the usual ones are to be
 * taken. */
static int read_chosen(struct space *sp, struct sc_err *err)
{
	const struct sc_search *search = sp->s->search;
	int rc = 0;

	sp->chosen = sc_arena_calloc(sp->s->arena, search->n_chosen + 1, sizeof(*sp->chosen));
	for (size_t i = 0; i < search->n_chosen && rc == 0; i++) {
		struct sc_axis *one = &sp->chosen[i];

		rc = sc_axis_parse("--choose", search->chosen[i], sp->s->arena, one, err);
		for (size_t k = 0; k < i && rc == 0; k++)
			if (strcmp(sp->chosen[k].path, one->path) == 0)
				rc = sc_err_set(err, SC_EUSAGE, "--choose: %.64s is given twice",
						one->path);
	}
	return rc;
}

static void add_axis(struct space *sp, const struct sc_axis *axis, int at, bool asked)
{
	sp->at[sp->n] = at;
	sp->asked[sp->n] = asked;
	sp->axis[sp->n++] = *axis;
}

static void take_values(struct space *sp, struct sc_axis *axis)
{
	axis->n = sp->values.n;
	axis->values = sc_arena_calloc(sp->s->arena, axis->n + 1, sizeof(*axis->values));
	for (size_t i = 0; i < axis->n; i++)
		axis->values[i] = sp->values.at[i];
	sp->values.n = 0;
}

static int add_key(struct space *sp, const struct key *key, struct sc_err *err)
{
	const struct sc_search *search = sp->s->search;
	const size_t n_path = strlen(key->path);
	struct sc_axis axis = {.path = key->path};
	bool named, has_values;
	/* the key is searched though nobody asks for it */
	bool is_open = key->open && (search->all || !sc_config_origin(search->base, key->path));

	for (size_t i = 0; i < search->n_fixed; i++)
		if (strncmp(search->fixed[i], key->path, n_path) == 0 &&
		    search->fixed[i][n_path] == '=')
			is_open = false;
	for (size_t i = 0; i < search->n_chosen; i++)
		if (strcmp(sp->chosen[i].path, key->path) == 0) {
			axis = sp->chosen[i];
			sp->chosen[i].option = NULL; /* taken */
		}
	named = axis.option != NULL;
	has_values = axis.n > 0;
	if (!named && !is_open)
		return 0;
	if (!has_values && !key->usual && !key->texts)
		return sc_err_set(err, SC_EUSAGE, "--choose: %s=... needs its values", key->path);
	if (!has_values) {
		if (key->usual)
			key->usual(sp);
		for (size_t i = 0; key->texts && key->texts[i]; i++)
			SC_VEC_PUSH(&sp->values, key->texts[i]);
		take_values(sp, &axis);
	}
	if (named || axis.n > 1)
		add_axis(sp, &axis, key->at, has_values);
	return 0;
}

/* ---- keys beside those of the split ---- */

/* Takes all names that the key may have. */
static int take_names(struct space *sp, struct sc_axis *axis, struct sc_err *err)
{
	const struct sc_field *field =
		sc_field_find(sc_config_fields, axis->path, sp->s->arena).field;

	for (size_t i = 0; field && field->type == SC_F_BOOL && FLAGS[i]; i++)
		SC_VEC_PUSH(&sp->values, FLAGS[i]);
	for (size_t i = 0; field && field->type == SC_F_ENUM && field->names[i].name; i++)
		if (strcmp(field->names[i].name, "auto") != 0) /* which is a search of its own */
			SC_VEC_PUSH(&sp->values, field->names[i].name);
	take_values(sp, axis);
	if (axis->n)
		return 0;
	return sc_err_set(err, SC_EUSAGE, "--choose: %s=... needs its values", axis->path);
}

static int add_others(struct space *sp, struct sc_err *err)
{
	const struct sc_search *search = sp->s->search;
	int rc = 0;

	for (size_t i = 0; i < search->n_chosen && rc == 0; i++) {
		struct sc_axis axis = sp->chosen[i];

		if (!axis.option)
			continue;
		if (axis.n == 0)
			rc = take_names(sp, &axis, err);
		if (rc == 0 && sp->n == MAX_AXES)
			rc = sc_err_set(err, SC_ELIMIT, "--choose: more than %d keys", MAX_AXES);
		if (rc == 0)
			add_axis(sp, &axis, AT_NONE, true);
	}
	return rc;
}

static void begin(struct space *sp)
{
	const struct sc_config *base = sp->s->search->base;
	const int64_t given[] = {[AT_GPUS] = sp->s->facts->config.gpus,
				 [AT_TP] = base->parallel.tp,
				 [AT_CP] = base->parallel.cp,
				 [AT_PP] = base->parallel.pp,
				 [AT_EP] = base->parallel.ep,
				 [AT_ETP] = base->parallel.etp,
				 [AT_CHUNKS] = base->parallel.virtual_stages,
				 [AT_BATCH] = sp->s->facts->config.training.global_batch,
				 [AT_MICRO] = base->training.micro_batch};

	for (int i = 0; i < N_AT; i++)
		sp->now[i] = i < AT_SHARDING && given[i] > 0 ? given[i] : 1;
	for (size_t i = 0; i < sp->n; i++)
		if (sp->at[i] != AT_NONE && sp->at[i] != AT_GPUS && sp->at[i] != AT_BATCH)
			sp->now[sp->at[i]] = 1;
}

static void take_rows(struct space *sp, struct sc_csv *out)
{
	struct sc_arena *arena = sp->s->arena;
	struct sc_csv_codes *codes = sc_arena_alloc(arena, sizeof(*codes));

	*out = (struct sc_csv){.file = "search",
			       .n_cols = sp->n,
			       .n_rows = sp->n_codes * sp->n_tail,
			       .codes = codes};
	*codes = (struct sc_csv_codes){sp->codes, sp->n_tail,
				       sc_arena_calloc(arena, sp->n, sizeof(sp->digit[0]))};
	out->header = sc_arena_calloc(arena, sp->n + 1, sizeof(*out->header));
	memcpy(codes->column, sp->digit, sp->n * sizeof(sp->digit[0]));
	for (size_t i = 0; i < sp->n; i++)
		out->header[i] = sp->axis[i].path;
}

int sc_search_space(struct sc_searching *s, struct sc_err *err)
{
	struct space sp = {.s = s};
	int rc = read_chosen(&sp, err);

	begin(&sp);
	for (size_t i = 0; i < N_KEYS && rc == 0; i++)
		rc = add_key(&sp, &KEYS[i], err);
	if (rc == 0)
		rc = add_others(&sp, err);
	if (rc == 0 && sp.n == 0)
		rc = sc_err_set(
			err, SC_EUSAGE,
			"search: the config gives the whole split; --all searches it nevertheless, "
			"--choose parallel.tp one key of it");
	begin(&sp);
	if (rc == 0)
		rc = number_axes(&sp, err);
	if (rc == 0)
		rc = list_codes(&sp, err);
	if (rc == 0 && sp.n_codes == 0)
		rc = sc_err_set(err, SC_ECONFLICT,
				"search: no split of %lld GPUs goes with what the config gives",
				(long long)sp.now[AT_GPUS]);
	if (rc == 0)
		take_rows(&sp, &s->out->cases);
	SC_VEC_RELEASE(&sp.values);
	return rc;
}
