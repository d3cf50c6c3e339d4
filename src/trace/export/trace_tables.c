/* Tables of measured operations. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/units.h"
#include "core/graph/op.h"
#include "trace/export/export_priv.h"
#include "trace/graph/build_trace.h"
#include "trace/graph/kernel_family.h"
#include "trace/graph/trace_order.h"

static const char *table_device(const char *path, char *buf, size_t n_buf, struct sc_err *err)
{
	const struct sc_trace_load_opts only_tables = {.skip_events = true};
	struct sc_trace trace;
	const char *name;

	if (sc_trace_load(path, &only_tables, &trace, err))
		return NULL;
	name = sc_trace_meta_of(&trace, "device.0.name");
	snprintf(buf, n_buf, "%s", name ? name : "unknown");
	sc_trace_release(&trace);
	for (char *c = buf; *c; c++) /* one cell of a CSV, without quotes */
		if (*c == ',' || *c == '"' || *c == '\n')
			*c = ' ';
	return buf;
}

struct table {
	const struct sc_export_run *run;
	const char *device;
	FILE *out;
};

/* ---- collectives ---- */

/* One row an instance. Where one rank was recorded, its time has waiting in it: "bound". */
static int trace_table_collectives(const struct table *table, struct sc_err *err)
{
	const struct sc_trace_files files = {table->run->files, table->run->n_files};
	struct sc_trace_run run;
	uint8_t *done;
	int rc = sc_trace_run_load(&files, NULL, &run, err);

	if (rc)
		return rc;
	done = sc_xmalloc(run.merge.n_members.n + 1);
	memset(done, 0, run.merge.n_members.n + 1);
	fprintf(table->out, "source,device,collective,ranks,bytes,time_us,quality\n");
	for (size_t r = 0; r < run.ranks.n; r++)
		for (size_t i = 0; i < run.ranks.at[r].collectives.n; i++) {
			const struct sc_merge_call *c = &run.ranks.at[r].collectives.at[i];
			const bool split =
				c->instance >= 0 && !isnan(run.transfer_us.at[c->instance]);

			if (c->kind < 0 || c->bytes < 0 || (c->instance >= 0 && done[c->instance]))
				continue;
			if (c->instance >= 0)
				done[c->instance] = 1;
			fprintf(table->out, "trace,%s,%s,%d,%lld,%.3f,%s\n", table->device,
				sc_collective_names[c->kind], sc_trace_ranks_of(&run, c),
				(long long)c->bytes,
				split ? run.transfer_us.at[c->instance] : c->bound_us,
				split ? "good" : "bound");
		}
	free(done);
	sc_trace_run_release(&run);
	return 0;
}

/* Tables that need the framework's ops: matrix products with their shapes, and the host's time
 * around launches. Ops of a thread nest; a launch belongs to the innermost one that is open at its
 * start. */

enum { MAX_DEPTH = 64 };

/* Events that are open on a thread. */
struct stack {
	size_t n;
	uint32_t event[MAX_DEPTH];
};
/* A call or an op. */
struct op {
	uint32_t product;  /* of a call: that it is part of, + 1 */
	uint32_t parent;   /* of a call or op: the op around it + 1 */
	uint32_t n_device; /* of an op: its launches, and what they took on the device */
	double device_us;
	bool on_tensor_cores; /* any of them */
};
struct ops {
	struct sc_trace trace;
	struct op *at; /* by event */
};

static int64_t end_of(const struct sc_trace_event *e)
{
	return e->start_ns + e->dur_ns;
}

/* ---- products ---- */

static const struct product {
	const char *op;
	int first; /* the tensor that is the left factor */
	bool batched;
} PRODUCTS[] = {
	{"aten::mm", 0, false},
	{"aten::addmm", 1, false},
	{"aten::_addmm_activation", 1, false},
	{"aten::bmm", 0, true},
	{"aten::baddbmm", 1, true},
	/* names of the oldest traces */
	{"mm", 0, false},
	{"addmm", 1, false},
	{"bmm", 0, true},
};

static const struct product *product_of(const char *name)
{
	for (size_t i = 0; i < sizeof(PRODUCTS) / sizeof(PRODUCTS[0]); i++)
		if (strcmp(PRODUCTS[i].op, name) == 0)
			return &PRODUCTS[i];
	return NULL;
}

/* The type of tensor `which` as tables write it, or NULL. */
static const char *dtype_of(const char *shapes, int which)
{
	static const struct {
		const char *text, *name;
	} types[] = {{"float", "fp32"}, {"c10::Half", "fp16"}, {"c10::BFloat16", "bf16"},
		     {"Float", "fp32"}, {"Half", "fp16"},      {"BFloat16", "bf16"}};
	const char *at = strchr(shapes, '|');
	size_t n;

	if (!at)
		return NULL;
	for (at++; which > 0; which--) {
		at = strchr(at, ',');
		if (!at)
			return NULL;
		at++;
	}
	n = strcspn(at, ",");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strlen(types[i].text) == n && memcmp(types[i].text, at, n) == 0)
			return types[i].name;
	return NULL;
}

/* Do gradients ask for it? Autograd's nodes are named so. */
static bool is_backward(const struct ops *ops, uint32_t event)
{
	for (uint32_t op = event + 1; op; op = ops->at[op - 1].parent)
		if (strstr(ops->trace.strings.at[ops->trace.events.at[op - 1].name], "Backward"))
			return true;
	return false;
}

/* Each product stands for itself, also where it is a gradient of another: pass is "fwd". */
static void put_product(const struct table *table, const struct ops *ops, uint32_t event)
{
	const struct sc_trace_event *e = &ops->trace.events.at[event];
	const struct product *p = product_of(ops->trace.strings.at[e->name]);
	const char *shapes = ops->trace.strings.at[e->shapes];
	const char *dtype = dtype_of(shapes, p->first);
	const size_t rank = p->batched ? 3 : 2;
	/* "[[64,128],[128]]|float,float" */
	json_t *dims = json_loads(shapes, JSON_DISABLE_EOF_CHECK, NULL);
	const json_t *a = json_array_get(dims, (size_t)p->first);
	const json_t *b = json_array_get(dims, (size_t)p->first + 1);
	const json_int_t batch = json_integer_value(json_array_get(a, 0));
	const json_int_t m = json_integer_value(json_array_get(a, rank - 2));
	const json_int_t k = json_integer_value(json_array_get(a, rank - 1));
	const json_int_t n = json_integer_value(json_array_get(b, rank - 1));
	const bool is_product = json_array_size(a) == rank && json_array_size(b) == rank &&
				json_integer_value(json_array_get(b, rank - 2)) == k;

	json_decref(dims);
	if (!dtype || !is_product || ops->at[event].n_device == 0)
		return;
	if (ops->at[event].on_tensor_cores && strcmp(dtype, "fp32") == 0)
		dtype = "tf32";
	fprintf(table->out, "trace,%s,%s,%s,fwd,%lld,%lld,%lld,%lld,%.3f,%s\n", table->device,
		dtype, p->batched ? "bmm" : "linear", p->batched ? (long long)batch : 1LL,
		(long long)m, (long long)n, (long long)k, ops->at[event].device_us,
		is_backward(ops, event) ? "backward" : "forward");
}

/* ---- nesting ---- */

static void nest_ops(struct ops *ops)
{
	const struct sc_trace *t = &ops->trace;
	struct stack *stacks = sc_xmalloc((t->lanes.n + 1) * sizeof(*stacks));

	for (size_t l = 0; l <= t->lanes.n; l++)
		stacks[l].n = 0;
	for (uint32_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		struct stack *s = &stacks[e->lane];
		size_t inner;

		if (e->cls != SC_EV_OP && e->cls != SC_EV_API)
			continue;
		while (s->n && end_of(&t->events.at[s->event[s->n - 1]]) <= e->start_ns)
			s->n--;
		if (s->n < MAX_DEPTH && e->cls == SC_EV_OP)
			s->event[s->n++] = i;
		inner = s->n - (e->cls == SC_EV_OP && s->n && s->event[s->n - 1] == i);
		ops->at[i].parent = inner ? s->event[inner - 1] + 1 : 0;
		for (size_t k = s->n; e->cls == SC_EV_API && k > 0; k--)
			if (product_of(t->strings.at[t->events.at[s->event[k - 1]].name])) {
				ops->at[i].product = s->event[k - 1] + 1;
				break;
			}
	}
	free(stacks);
}

/* The device's time of each product's kernels that multiply; transposes and casts are other ops. */
static void add_device_times(struct ops *ops)
{
	/* Single precision on tensor cores is TF32: CUTLASS and cuBLAS name their kernels by the
	 * instruction. */
	static const char *const tensor_parts[] = {"tensorop", "tf32", "s1688"};
	const struct sc_trace *t = &ops->trace;
	struct sc_correlations calls = sc_correlations_of(t, SC_EV_API);

	for (uint32_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		const uint32_t call = sc_correlations_find(&calls, e->correlation);
		uint32_t op;

		if (call == SC_NONE || e->cls != SC_EV_KERNEL ||
		    sc_kernel_family_of(t->strings.at[e->name]) != SC_FAMILY_GEMM)
			continue;
		op = ops->at[call].product;
		if (op) {
			ops->at[op - 1].device_us += sc_ns_us(e->dur_ns);
			ops->at[op - 1].n_device++;
			for (size_t k = 0; k < 3; k++)
				if (strstr(t->strings.at[e->name], tensor_parts[k]))
					ops->at[op - 1].on_tensor_cores = true;
		}
	}
	SC_VEC_RELEASE(&calls.list);
}

static void put_products(const struct table *table, struct ops *ops)
{
	add_device_times(ops);
	for (uint32_t i = 0; i < ops->trace.events.n; i++)
		if (ops->trace.events.at[i].cls == SC_EV_OP &&
		    product_of(ops->trace.strings.at[ops->trace.events.at[i].name]))
			put_product(table, ops, i);
}

/* ---- the host's time of the launches of an op ---- */

/* An outermost op, and its launches of kernels. */
struct open_op {
	uint32_t op;                                  /* + 1 */
	int64_t n_launches, launches_ns, launched_ns; /* launched_ns: end of the last */
};

static void close_op(const struct table *table, const struct sc_trace *t, const struct open_op *o)
{
	if (!o->op || o->launches_ns <= 0)
		return;
	fprintf(table->out, "trace,%s,launches,", table->device);
	sc_csv_put_cell(table->out, t->strings.at[t->events.at[o->op - 1].name]);
	fprintf(table->out, ",%lld,%.3f\n", (long long)o->n_launches, sc_ns_us(o->launches_ns));
}

static uint32_t outermost_op(const struct ops *ops, uint32_t event)
{
	uint32_t op = ops->at[event].parent;

	while (op && ops->at[op - 1].parent)
		op = ops->at[op - 1].parent;
	return op;
}

static void put_launches(const struct table *table, struct ops *ops)
{
	const struct sc_trace *t = &ops->trace;
	struct open_op *open = sc_xcalloc(t->lanes.n + 1, sizeof(*open));

	for (uint32_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		struct open_op *o = &open[e->lane];

		if (e->cls == SC_EV_OP && !ops->at[i].parent) {
			close_op(table, t, o);
			*o = (struct open_op){.op = i + 1};
		}
		/* A driver's call within one of the runtime is the same launch. */
		if (e->cls == SC_EV_API && e->correlation && o->op &&
		    outermost_op(ops, i) == o->op &&
		    (strstr(t->strings.at[e->name], "LaunchKernel") ||
		     strstr(t->strings.at[e->name], "LaunchCooperativeKernel")) &&
		    (!o->n_launches || e->start_ns >= o->launched_ns)) {
			o->n_launches++;
			o->launches_ns += e->dur_ns;
			o->launched_ns = end_of(e);
		}
	}
	for (size_t l = 0; l <= t->lanes.n; l++)
		close_op(table, t, &open[l]);
	free(open);
}

int sc_export_table(enum sc_export_format format, const struct sc_export_run *run, FILE *out,
		    struct sc_err *err)
{
	const struct sc_trace_load_opts opts = {.classes = 1u << SC_EV_KERNEL | 1u << SC_EV_API |
							   1u << SC_EV_OP};
	char name[128];
	struct table table = {.run = run, .device = run->device, .out = out};

	if (!table.device)
		table.device = table_device(run->files[0], name, sizeof(name), err);
	if (!table.device)
		return err ? -(int)err->code : -(int)SC_EIO;
	if (format == SC_EXPORT_COLLECTIVES)
		return trace_table_collectives(&table, err);
	fputs(format == SC_EXPORT_OPS ? "source,device,dtype,op,pass,batch,m,n,k,time_us,phase\n"
				      : "source,device,overhead,what,launches,time_us\n",
	      out);
	for (size_t f = 0; f < run->n_files; f++) {
		struct ops ops;
		const int rc = sc_trace_load(run->files[f], &opts, &ops.trace, err);

		if (rc)
			return rc;
		ops.at = sc_xcalloc(ops.trace.events.n + 1, sizeof(*ops.at));
		nest_ops(&ops);
		if (format == SC_EXPORT_OPS)
			put_products(&table, &ops);
		else
			put_launches(&table, &ops);
		free(ops.at);
		sc_trace_release(&ops.trace);
	}
	return 0;
}
