/* Pairs under every policy as JSON. */
#include "base/json_out.h"
#include "report/c3_advice.h"
#include "report/json.h"
#include "report/text.h"

enum { C3_PAIRS_VERSION = 1 };

static void put_compute(struct sc_json *json, json_t *object, const struct sc_c3_pair *pair)
{
	const struct sc_gemm_shape *g = &pair->gemm.u.gemm;

	sc_json_int(json, object, "n_kernels", pair->n_layer ? (int64_t)pair->n_layer : 1);
	if (pair->n_layer || pair->gemm.kind != SC_OP_GEMM)
		return;
	object = sc_json_object(json, object, "gemm");
	sc_json_real(json, object, "batch", g->batch);
	sc_json_real(json, object, "m", g->m);
	sc_json_real(json, object, "n", g->n);
	sc_json_real(json, object, "k", g->k);
	sc_json_text(json, object, "dtype", sc_enum_name(sc_dtype_names, (int)pair->gemm.dtype));
}

static void put_policy(struct sc_json *json, json_t *object, const struct sc_c3_result *r)
{
	json_t *limits;

	sc_json_real(json, object, "time_us", r->time_us);
	sc_json_real(json, object, "speedup", r->speedup);
	sc_json_real(json, object, "ideal_speedup", r->ideal);
	sc_json_known_real(json, object, "fraction_of_ideal", r->fraction);
	sc_json_real(json, object, "compute_slowdown", r->compute_slowdown);
	sc_json_real(json, object, "comm_slowdown", r->comm_slowdown);
	if (r->n >= 1)
		sc_json_real(json, object, "reserved_or_pieces", r->n);
	limits = sc_json_array(json, object, "limits");
	for (size_t i = 0; i < r->limits.n; i++) {
		json_t *limit = sc_json_object(json, limits, NULL);

		sc_json_text(json, limit, "resource", sc_c3_limit_name(r->limits.at[i].what));
		sc_json_real(json, limit, "until_us", r->limits.at[i].until_us);
	}
}

/* As it was asked for. */
static const char *choice_name(const struct sc_c3_advice *a, size_t choice, struct sc_strbuf *out)
{
	sc_strbuf_clear(out);
	sc_c3_choice_text(&a->choice[choice], a->choice[choice].n, out);
	return sc_strbuf_get(out);
}

static void put_advice(struct sc_json *json, json_t *object, const struct sc_c3_advice *a)
{
	const struct sc_c3_pair *pair = &a->named->pair;
	const struct sc_transfer *t = &pair->transfer;
	const struct sc_c3_result *any = &a->result[a->best];
	json_t *policies = sc_json_object(json, object, "policies"), *changes;
	struct sc_strbuf name = {0};

	sc_json_text(json, object, "name", a->named->name);
	sc_json_text(json, object, "kind", sc_enum_name(sc_c3_kind_names, (int)pair->kind));
	sc_json_text(json, object, "class", sc_c3_class_name(a->class));
	if (a->named->count > 0)
		sc_json_real(json, object, "times_an_iteration", a->named->count);
	put_compute(json, object, pair);
	sc_json_text(json, object, "device", t->device->id);
	sc_json_text(json, object, "collective", sc_collective_names[t->shape.kind]);
	sc_json_real(json, object, "bytes", t->shape.bytes);
	sc_json_int(json, object, "gpus", t->n_ranks);
	sc_json_int(json, object, "nodes", t->n_nodes > 1 ? t->n_nodes : 1);
	sc_json_real(json, object, "compute_us", any->compute_us);
	sc_json_real(json, object, "comm_us", any->comm_us);
	sc_json_real(json, object, "serial_us", any->serial_us);
	sc_json_real(json, object, "ideal_speedup", any->ideal);
	sc_json_text(json, object, "best", choice_name(a, a->best, &name));
	for (size_t p = 0; p < a->n; p++)
		if (a->applies[p])
			put_policy(json, sc_json_object(json, policies, choice_name(a, p, &name)),
				   &a->result[p]);
	changes = sc_json_array(json, object, "best_by_bytes");
	for (size_t i = 0; i < a->n_changes; i++) {
		json_t *change = sc_json_object(json, changes, NULL);

		sc_json_real(json, change, "from_bytes", a->changes[i].bytes);
		sc_json_text(json, change, "policy", choice_name(a, a->changes[i].best, &name));
	}
	sc_strbuf_release(&name);
}

static void add_verdict(struct sc_json *json, const struct sc_c3_advices *advices)
{
	const double least_gain = 1.01;
	struct sc_strbuf text = {0};
	double best = 0;
	size_t n = 0;

	for (size_t i = 0; i < advices->n; i++) {
		const struct sc_c3_advice *a = &advices->at[i];

		n += a->result[a->best].speedup >= least_gain;
		if (a->result[a->best].speedup > best)
			best = a->result[a->best].speedup;
	}
	if (sc_c3_does_not_fit(advices)) {
		sc_text_memory(advices->memory, &text);
		sc_strbuf_append(&text, ". ");
	}
	sc_json_verdict(
		json,
		text.n ? SC_STANDS_BADLY
		: n    ? SC_STANDS_WELL
		       : SC_STANDS_FAIR,
		"%sOverlapped, %zu of %zu pairs gain 1 %% or more over one after the other; at "
		"best %.2f times.",
		sc_strbuf_get(&text), n, advices->n, best);
	sc_strbuf_release(&text);
}

int sc_json_c3_advice(const struct sc_c3_advices *advices, FILE *out, struct sc_err *err)
{
	struct sc_json json;
	json_t *pairs;

	sc_json_init(&json, "stepcast/c3-pairs", C3_PAIRS_VERSION);
	if (advices->memory)
		sc_json_bool(&json, json.root, "fits", !sc_c3_does_not_fit(advices));
	if (advices->request)
		sc_json_request(&json, advices->request);
	add_verdict(&json, advices);
	pairs = sc_json_array(&json, json.root, "pairs");
	for (size_t i = 0; i < advices->n; i++)
		put_advice(&json, sc_json_object(&json, pairs, NULL), &advices->at[i]);
	return sc_json_write(&json, out, err);
}
