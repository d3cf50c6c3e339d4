/* Reads and writes MSCCL's XML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "base/xml.h"
#include "models/msccl/msccl.h"

const char *const sc_msccl_op_names[] = {"nop", "s",    "r",   "rcs", "rrs",
					 "rrc", "rrcs", "cpy", "re",  NULL};
const char *const sc_msccl_coll_names[] = {
	"allreduce", "allgather", "reduce_scatter", "alltoall", "custom", "custom", NULL};
const char *const sc_msccl_proto_names[] = {"LL", "LL128", "Simple", NULL};
static const char *const BUFFER_NAMES[] = {"i", "o", "s", NULL};

struct lists {
	SC_VEC(struct sc_msccl_tb) tbs;
	SC_VEC(struct sc_msccl_step) steps;
	struct sc_arena *arena;
	const char *line_at; /* lines are counted from here */
	unsigned line;
};

/* Index of one of `names`, NULL-ended. */
static int xml_name(const struct sc_xml *r, const char *name, const char *const *names, int *out)
{
	const struct sc_xml_attribute *a = sc_xml_get(r, name);
	char what[160] = "";
	size_t n = 0;

	for (*out = 0; a && names[*out]; ++*out)
		if (strlen(names[*out]) == a->n_value &&
		    memcmp(names[*out], a->value, a->n_value) == 0)
			return 0;
	for (size_t i = 0; names[i] && n < sizeof(what); i++)
		n += (size_t)snprintf(what + n, sizeof(what) - n, "%s%s",
				      i ? ", " : "expected one of ", names[i]);
	return sc_xml_fail(r, a ? a->at : r->tag, what);
}

/* Lines of elements in the order of the file, counted once. */
static unsigned line_here(const struct sc_xml *r, struct lists *lists)
{
	for (; lists->line_at < r->tag; lists->line_at++)
		lists->line += *lists->line_at == '\n';
	return lists->line;
}

/* Whole numbers of an element. */
struct number {
	struct sc_xml_range range;
	int *out;
};

static int read_numbers(const struct sc_xml *r, const struct number *numbers, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = sc_xml_int(r, numbers[i].range, numbers[i].out);
	return rc;
}
#define READ(r, ...)                                          \
	read_numbers(r, (const struct number[]){__VA_ARGS__}, \
		     sizeof((const struct number[]){__VA_ARGS__}) / sizeof(struct number))

static int read_step(struct sc_xml *r, int id, struct lists *lists)
{
	struct sc_msccl_step step = {.line = line_here(r, lists)};
	int s, op, src, dst;
	int rc = READ(r, {{"s", 0, SC_MSCCL_MAX_STEPS, false}, &s});

	if (rc == 0 && s != id)
		rc = sc_xml_fail(r, r->tag, "steps are numbered from 0 without holes");
	if (rc == 0)
		rc = xml_name(r, "type", sc_msccl_op_names, &op);
	if (rc == 0)
		rc = xml_name(r, "srcbuf", BUFFER_NAMES, &src);
	if (rc == 0)
		rc = xml_name(r, "dstbuf", BUFFER_NAMES, &dst);
	if (rc == 0)
		rc = READ(r, {{"srcoff", -1, SC_MSCCL_MAX_CHUNKS, false}, &step.src_off},
			  {{"dstoff", -1, SC_MSCCL_MAX_CHUNKS, false}, &step.dst_off},
			  {{"cnt", 0, SC_MSCCL_MAX_COUNT, false}, &step.count},
			  {{"depid", -1, SC_MSCCL_MAX_TBS, false}, &step.dep_tb},
			  {{"deps", -1, SC_MSCCL_MAX_STEPS, false}, &step.dep_step});
	if (rc == 0 && (step.dep_tb < 0) != (step.dep_step < 0))
		rc = sc_xml_fail(r, r->tag, "depid and deps name a step together, or are both -1");
	if (rc)
		return rc;
	step.op = (unsigned char)op;
	step.src = (unsigned char)src;
	step.dst = (unsigned char)dst;
	if (op != SC_MSCCL_NOP && step.count < 1)
		return sc_xml_fail(r, r->tag, "cnt: a step other than nop moves 1 chunk or more");
	if (lists->steps.n == SC_MSCCL_MAX_ALL_STEPS)
		return sc_xml_fail(r, r->tag, "too many steps");
	SC_VEC_PUSH(&lists->steps, step);
	return 0;
}

/* Children until the element ends; `child` reads one, and is told its number. */
typedef int (*read_child)(struct sc_xml *r, int id, struct lists *lists, void *ctx);
static int read_children(struct sc_xml *r, const char *parent, const char *child, int max,
			 read_child read, struct lists *lists, void *ctx)
{
	char what[160];

	for (int n = 0;; n++) {
		int rc = sc_xml_next(r);

		if (rc)
			return rc;
		if (r->closes && sc_xml_is(r, parent))
			return 0;
		if (r->closes || !sc_xml_is(r, child)) {
			snprintf(what, sizeof(what), "expected <%s> or the end of <%s>", child,
				 parent);
			return sc_xml_fail(r, r->name ? r->tag : r->end, what);
		}
		if (n == max) {
			snprintf(what, sizeof(what), "more than %d of <%s>", max, child);
			return sc_xml_fail(r, r->tag, what);
		}
		rc = read(r, n, lists, ctx);
		if (rc)
			return rc;
	}
}

static int read_step_child(struct sc_xml *r, int id, struct lists *lists, void *ctx)
{
	int rc = read_step(r, id, lists);

	(void)ctx;
	if (rc || r->is_empty)
		return rc;
	rc = sc_xml_next(r);
	if (rc == 0 && !(r->closes && sc_xml_is(r, "step")))
		rc = sc_xml_fail(r, r->name ? r->tag : r->end, "expected the end of <step>");
	return rc;
}

static int read_tb(struct sc_xml *r, int id, struct lists *lists, void *ctx)
{
	const struct sc_msccl *algo = ctx;
	struct sc_msccl_tb tb = {.first = lists->steps.n, .line = line_here(r, lists)};
	int number;
	int rc = READ(r, {{"id", 0, SC_MSCCL_MAX_TBS, false}, &number});

	if (rc == 0 && number != id)
		rc = sc_xml_fail(r, r->tag, "thread blocks are numbered from 0 without holes");
	if (rc == 0)
		rc = READ(r, {{"send", -1, algo->n_gpus - 1, false}, &tb.send},
			  {{"recv", -1, algo->n_gpus - 1, false}, &tb.recv},
			  {{"chan", 0, SC_MSCCL_MAX_CHANNELS - 1, false}, &tb.channel});
	if (rc == 0 && !r->is_empty)
		rc = read_children(r, "tb", "step", SC_MSCCL_MAX_STEPS, read_step_child, lists,
				   NULL);
	tb.n = lists->steps.n - tb.first;
	if (rc == 0)
		SC_VEC_PUSH(&lists->tbs, tb);
	return rc;
}

static int read_gpu(struct sc_xml *r, int id, struct lists *lists, void *ctx)
{
	struct sc_msccl *algo = ctx;
	struct sc_msccl_gpu *gpu = &algo->gpus[id];
	int number;
	int rc = READ(r, {{"id", 0, algo->n_gpus - 1, false}, &number});

	if (rc == 0 && number != id)
		rc = sc_xml_fail(r, r->tag, "GPUs are numbered from 0 without holes");
	*gpu = (struct sc_msccl_gpu){.first = lists->tbs.n, .line = line_here(r, lists)};
	if (rc == 0)
		rc = READ(r, {{"i_chunks", 0, SC_MSCCL_MAX_CHUNKS, false}, &gpu->chunks[0]},
			  {{"o_chunks", 0, SC_MSCCL_MAX_CHUNKS, false}, &gpu->chunks[1]},
			  {{"s_chunks", 0, SC_MSCCL_MAX_CHUNKS, false}, &gpu->chunks[2]});
	if (rc == 0 && !r->is_empty)
		rc = read_children(r, "gpu", "tb", SC_MSCCL_MAX_TBS, read_tb, lists, algo);
	gpu->n = lists->tbs.n - gpu->first;
	return rc;
}

static int read_coll(const struct sc_xml *r, struct sc_arena *arena, struct sc_msccl *out)
{
	const struct sc_xml_attribute *a = sc_xml_get(r, "coll");

	if (!a || a->n_value == 0 || a->n_value > SC_XML_MAX_NAME)
		return sc_xml_fail(r, a ? a->at : r->tag,
				   "coll: expected the name of a collective");
	out->coll_name = sc_arena_memdup(arena, a->value, a->n_value);
	for (out->coll = 0; out->coll < SC_MSCCL_NEXT; out->coll++)
		if (strcmp(out->coll_name, sc_msccl_coll_names[out->coll]) == 0)
			break;
	if (out->coll == SC_MSCCL_NEXT)
		out->coll = SC_MSCCL_CUSTOM;
	if (strcmp(out->coll_name, "reducescatter") == 0)
		out->coll = SC_MSCCL_REDUCE_SCATTER;
	return 0;
}

static int read_algo(struct sc_xml *r, struct sc_arena *arena, struct sc_msccl *out)
{
	const struct sc_xml_attribute *name = sc_xml_get(r, "name");
	int proto, in_place, low, high;
	int rc = xml_name(r, "proto", sc_msccl_proto_names, &proto);

	if (rc == 0)
		rc = read_coll(r, arena, out);
	if (rc == 0)
		rc = READ(r, {{"nchannels", 1, SC_MSCCL_MAX_CHANNELS, false}, &out->n_channels},
			  {{"nchunksperloop", 1, SC_MSCCL_MAX_CHUNKS, false}, &out->n_chunks},
			  {{"ngpus", 1, SC_MSCCL_MAX_GPUS, false}, &out->n_gpus},
			  {{"inplace", 0, 1, true}, &in_place},
			  {{"minBytes", 0, INT32_MAX, true}, &low},
			  {{"maxBytes", 0, INT32_MAX, true}, &high});
	if (rc)
		return rc;
	out->proto = (enum sc_proto)proto;
	out->in_place = in_place;
	out->min_bytes = low;
	out->max_bytes = high;
	out->name = name ? sc_arena_memdup(arena, name->value, name->n_value) : "";
	out->gpus = sc_arena_calloc(arena, (size_t)out->n_gpus, sizeof(*out->gpus));
	return 0;
}

/* ---- the form ---- */

static int fail_step(const struct sc_xml *r, const struct sc_msccl_step *step, const char *text)
{
	return sc_err_at(r->err, SC_EVALUE, r->source->file, step->line, 0, "%s", text);
}

/* Chunks of a buffer; in place, input and output are one. */
static int size_of(const struct sc_msccl *algo, const struct sc_msccl_gpu *gpu, int buffer)
{
	int n = gpu->chunks[buffer];

	if (algo->in_place && buffer != SC_MSCCL_SCRATCH && n == 0)
		n = gpu->chunks[1 - buffer];
	return n;
}

static int check_step(const struct sc_xml *r, const struct sc_msccl *algo,
		      const struct sc_msccl_gpu *gpu, const struct sc_msccl_tb *tb,
		      const struct sc_msccl_step *step)
{
	enum sc_msccl_op op = (enum sc_msccl_op)step->op;
	bool reads = op != SC_MSCCL_NOP && op != SC_MSCCL_RECV && op != SC_MSCCL_RECV_COPY_SEND;
	bool writes = op != SC_MSCCL_NOP && op != SC_MSCCL_SEND && op != SC_MSCCL_RECV_REDUCE_SEND;

	if (sc_msccl_sends(op) && tb->send < 0)
		return fail_step(r, step, "this step sends, but its thread block has no send peer");
	if (sc_msccl_receives(op) && tb->recv < 0)
		return fail_step(r, step,
				 "this step receives, but its thread block has no recv peer");
	if (reads &&
	    (step->src_off < 0 || step->src_off > size_of(algo, gpu, step->src) - step->count))
		return fail_step(r, step, "srcoff and cnt reach beyond the buffer srcbuf");
	if (writes &&
	    (step->dst_off < 0 || step->dst_off > size_of(algo, gpu, step->dst) - step->count))
		return fail_step(r, step, "dstoff and cnt reach beyond the buffer dstbuf");
	if (step->dep_tb >= 0 &&
	    ((size_t)step->dep_tb >= gpu->n ||
	     (size_t)step->dep_step >= algo->tbs[gpu->first + (size_t)step->dep_tb].n))
		return fail_step(r, step, "depid and deps name a step that this GPU does not have");
	return 0;
}

static int check_form(const struct sc_xml *r, const struct sc_msccl *algo)
{
	int rc = 0;

	for (int g = 0; g < algo->n_gpus && rc == 0; g++) {
		const struct sc_msccl_gpu *gpu = &algo->gpus[g];

		for (size_t t = 0; t < gpu->n && rc == 0; t++) {
			const struct sc_msccl_tb *tb = &algo->tbs[gpu->first + t];

			if (tb->send == g || tb->recv == g)
				return sc_err_at(r->err, SC_EVALUE, r->source->file, tb->line, 0,
						 "a thread block's peer is not its own GPU");
			for (size_t s = 0; s < tb->n && rc == 0; s++)
				rc = check_step(r, algo, gpu, tb, &algo->steps[tb->first + s]);
		}
	}
	return rc;
}

static int algo_read_file(struct sc_xml *r, struct lists *lists, struct sc_msccl *out)
{
	int rc = sc_xml_next(r);
	int64_t n_chunks = 0;
	int n = 0;

	if (rc == 0 && (!sc_xml_is(r, "algo") || r->closes || r->is_empty))
		rc = sc_xml_fail(r, r->name ? r->tag : r->end, "expected <algo>");
	if (rc == 0)
		rc = read_algo(r, lists->arena, out);
	if (rc == 0)
		rc = read_children(r, "algo", "gpu", out->n_gpus, read_gpu, lists, out);
	for (int g = 0; g < out->n_gpus && rc == 0; g++) {
		const int *chunks = out->gpus[g].chunks;

		n += out->gpus[g].line > 0;
		n_chunks += out->n_chunks + chunks[0] + chunks[1] + chunks[2];
	}
	if (rc == 0 && n_chunks > SC_MSCCL_MAX_ALL_CHUNKS)
		rc = sc_xml_fail(r, r->tag, "too many chunks in all buffers together");
	if (rc == 0 && n < out->n_gpus)
		rc = sc_xml_fail(r, r->tag, "fewer <gpu> than ngpus says");
	if (rc == 0)
		rc = sc_xml_next(r);
	if (rc == 0 && r->name)
		rc = sc_xml_fail(r, r->tag, "nothing follows </algo>");
	return rc;
}

int sc_msccl_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_msccl *out,
		   struct sc_err *err)
{
	struct sc_xml *r = sc_arena_calloc(arena, 1, sizeof(*r));
	struct lists lists = {.arena = arena, .line_at = source->text, .line = 1};
	struct sc_msccl algo = {.file = source->file};
	int rc;

	*r = (struct sc_xml){
		.source = source, .err = err, .at = source->text, .end = source->text + source->n};
	rc = algo_read_file(r, &lists, &algo);
	algo.n_tbs = lists.tbs.n;
	algo.n_steps = lists.steps.n;
	algo.tbs = sc_arena_alloc(arena, (lists.tbs.n + 1) * sizeof(*algo.tbs));
	algo.steps = sc_arena_alloc(arena, (lists.steps.n + 1) * sizeof(*algo.steps));
	if (lists.tbs.n)
		memcpy(algo.tbs, lists.tbs.at, lists.tbs.n * sizeof(*algo.tbs));
	if (lists.steps.n)
		memcpy(algo.steps, lists.steps.at, lists.steps.n * sizeof(*algo.steps));
	SC_VEC_RELEASE(&lists.tbs);
	SC_VEC_RELEASE(&lists.steps);
	if (rc == 0)
		rc = check_form(r, &algo);
	if (rc == 0)
		*out = algo;
	return rc;
}

int sc_msccl_load(const char *path, struct sc_arena *arena, struct sc_msccl *out,
		  struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, SC_MSCCL_MAX_BYTES, &source, err);

	if (rc == 0)
		rc = sc_msccl_parse(&source, arena, out, err);
	sc_source_release(&source);
	return rc;
}

/* ---- writing ---- */

/* A step says that others wait for it: `waited`, by step. */
static void write_tb(const struct sc_msccl *algo, const struct sc_msccl_tb *tb, size_t id,
		     const bool *waited, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "    <tb id=\"%zu\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", id,
			 tb->send, tb->recv, tb->channel);
	for (size_t s = 0; s < tb->n; s++) {
		const struct sc_msccl_step *x = &algo->steps[tb->first + s];

		sc_strbuf_printf(out,
				 "      <step s=\"%zu\" type=\"%s\" srcbuf=\"%s\" srcoff=\"%d\" "
				 "dstbuf=\"%s\" dstoff=\"%d\" cnt=\"%d\" depid=\"%d\" deps=\"%d\" "
				 "hasdep=\"%d\"/>\n",
				 s, sc_msccl_op_names[x->op], BUFFER_NAMES[x->src], x->src_off,
				 BUFFER_NAMES[x->dst], x->dst_off, x->count, x->dep_tb, x->dep_step,
				 waited[tb->first + s]);
	}
	sc_strbuf_append(out, "    </tb>\n");
}

void sc_msccl_write(const struct sc_msccl *algo, struct sc_strbuf *out)
{
	bool *waited = sc_xcalloc(algo->n_steps + 1, sizeof(*waited));

	sc_strbuf_printf(
		out,
		"<algo name=\"%s\" proto=\"%s\" nchannels=\"%d\" nchunksperloop=\"%d\" "
		"ngpus=\"%d\" coll=\"%s\" inplace=\"%d\" outofplace=\"%d\" minBytes=\"%.0f\" "
		"maxBytes=\"%.0f\">\n",
		algo->name, sc_msccl_proto_names[algo->proto], algo->n_channels, algo->n_chunks,
		algo->n_gpus, algo->coll_name, algo->in_place, !algo->in_place, algo->min_bytes,
		algo->max_bytes);
	for (int g = 0; g < algo->n_gpus; g++) {
		const struct sc_msccl_gpu *gpu = &algo->gpus[g];

		sc_strbuf_printf(
			out, "  <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n",
			g, gpu->chunks[0], gpu->chunks[1], gpu->chunks[2]);
		for (size_t t = gpu->first; t < gpu->first + gpu->n; t++)
			for (size_t s = 0; s < algo->tbs[t].n; s++) {
				const struct sc_msccl_step *x =
					&algo->steps[algo->tbs[t].first + s];

				if (x->dep_tb >= 0)
					waited[algo->tbs[gpu->first + (size_t)x->dep_tb].first +
					       (size_t)x->dep_step] = true;
			}
		for (size_t t = 0; t < gpu->n; t++)
			write_tb(algo, &algo->tbs[gpu->first + t], t, waited, out);
		sc_strbuf_append(out, "  </gpu>\n");
	}
	free(waited);
	sc_strbuf_append(out, "</algo>\n");
}
