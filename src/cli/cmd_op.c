/* stepcast op: what the op and collective models say of one operation. */
#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "base/stats.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/op_args.h"
#include "cli/start.h"
#include "core/machine/device.h"
#include "models/collective/collective.h"
#include "models/op_model.h"
#include "study/c3/c3.h"

enum { OP_VERSION = 1 };

struct op_command_args {
	struct sc_common common;
	const char *device, *cluster, *beside;
	int json;
};

#define SC_ARGS struct op_command_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_TEXT(device, "device", "NAME", "the GPU, as a100-sxm-80gb"),
	SC_OPT_IN(
		cluster, "cluster", "FILE",
		"collective: the cluster, as clusters/selene.yaml (default: the GPU's usual node)"),
	SC_OPT_TEXT(
		beside, "beside", "'KIND KEY=VALUE...'",
		"another operation, on a stream of its own, launched just after it on the same GPU: say how long both take"),
	SC_OPT_JSON(json),
	{0},
};

/* Named numbers and texts in the order they are shown; text and JSON come from the same list. */
enum fact_kind { FACT_REAL, FACT_COUNT, FACT_TEXT, FACT_BOOL };
struct fact {
	enum fact_kind kind;
	const char *key, *unit; /* unit: for text only */
	const char *text;
	double number; /* FACT_BOOL: 0 or 1 */
};
enum { MAX_FACTS = 16 };
struct facts {
	struct fact at[MAX_FACTS];
	size_t n;
};

static void add_real(struct facts *facts, const char *key, const char *unit, double number)
{
	facts->at[facts->n++] =
		(struct fact){.kind = FACT_REAL, .key = key, .unit = unit, .number = number};
}

static void add_text(struct facts *facts, const char *key, const char *text)
{
	facts->at[facts->n++] = (struct fact){.kind = FACT_TEXT, .key = key, .text = text};
}

static void add_time(struct facts *facts, double us, double spread_frac)
{
	add_real(facts, "time_us", "us", us);
	add_real(facts, "low_us", "us", us * exp(-SC_Z_CENTRAL_80 * spread_frac));
	add_real(facts, "high_us", "us", us * exp(SC_Z_CENTRAL_80 * spread_frac));
}

static void warn_of_extrapolation(const struct sc_common *common, const struct sc_device *device,
				  const struct sc_op_time *time)
{
	if (!time->measured)
		sc_cli_warn(common, "%s coefficients of %s: trend, not measured; the band is wider",
			    time->block, device->id);
	else if (time->extrapolated && time->total_us < device->band.shortest_us)
		sc_cli_warn(common, "models of %s extrapolate below %g us; the band is wider",
			    device->id, device->band.shortest_us);
	else if (time->extrapolated)
		sc_cli_warn(common, "models of %s extrapolate above %g us; the band is wider",
			    device->id, device->band.longest_us);
}

static void describe_kernel(const struct sc_common *common, const struct sc_device *device,
			    const struct sc_op *op, struct facts *facts)
{
	struct sc_op_time time;

	sc_op_model_get(op->kind)->time(device, op, &time);
	warn_of_extrapolation(common, device, &time);
	add_time(facts, time.total_us, time.spread_frac);
	add_real(facts, "math_us", "us", time.math_us);
	add_real(facts, "memory_us", "us", time.memory_us);
	add_real(facts, "fixed_us", "us", time.fixed_us);
	add_real(facts, "waves", "", time.waves);
	add_text(facts, "limit", time.limit);
	facts->at[facts->n++] = (struct fact){
		.kind = FACT_BOOL, .key = "extrapolated", .number = time.extrapolated};
}

static void describe_collective(const struct sc_fabric *fabric, const struct sc_span *span,
				const struct sc_op *op, double spread_frac, struct facts *facts)
{
	static const char *const protos[] = {"ll", "ll128", "simple"};
	struct sc_collective_choice choice = {0};
	struct sc_cost cost;

	cost = sc_collective_cost(fabric, &op->u.collective, span, &choice);
	add_time(facts, sc_cost_alone_us(&cost), spread_frac);
	add_real(facts, "latency_us", "us", cost.latency_us);
	add_real(facts, "transfer_us", "us", cost.work_us);
	add_real(facts, "algbw_gbps", "1e9 B/s", choice.algbw_gbps);
	add_text(facts, "algorithm", sc_algo_names[choice.algo]);
	add_text(facts, "protocol", protos[choice.proto]);
	facts->at[facts->n++] =
		(struct fact){.kind = FACT_COUNT, .key = "channels", .number = choice.channels};
	add_text(facts, "limit",
		 cost.latency_us > cost.work_us ? "latency"
		 : span->n_nodes > 1            ? "network"
						: "link");
}

/* The GPU must know the dtype of an operation that multiplies; for the others it is only a size. */
static int check_math(const struct sc_common *common, const struct sc_device *device,
		      const struct sc_op *op, struct sc_err *err)
{
	bool multiplies = op->kind == SC_OP_GEMM || op->kind == SC_OP_ATTENTION;
	struct sc_strbuf peaks = {0};
	int rc;

	if (!multiplies || device->peak_tflops[op->dtype] > 0)
		return 0;
	if (op->dtype == SC_FP16) {
		sc_cli_warn(common,
			    "%s has no fp16 tensor math; the operation runs on its fp32 units",
			    device->id);
		return 0;
	}
	sc_device_print_peaks(device, &peaks);
	rc = sc_err_set(err, SC_ECONFLICT, "%s has no %s math; its peaks in TFLOP/s: %s",
			device->id, sc_enum_name(sc_dtype_names, (int)op->dtype),
			sc_strbuf_get(&peaks));
	sc_strbuf_release(&peaks);
	return rc;
}

enum { MAX_WORDS = 32 };

/* "gemm m=1 n=2": a kernel and its dtype. */
static int read_beside(const struct op_command_args *args, const struct sc_device *device,
		       struct sc_arena *arena, struct sc_op *out, struct sc_err *err)
{
	const char *words[MAX_WORDS];
	const struct sc_op_kind_info *info;
	struct sc_op_args op_args;
	char *rest = NULL, *text = sc_arena_strdup(arena, args->beside);
	size_t n = 0;
	int rc;

	for (char *word = strtok_r(text, " ", &rest); word && n < MAX_WORDS;
	     word = strtok_r(NULL, " ", &rest))
		words[n++] = word;
	info = sc_op_kind_find(n ? words[0] : "", err);
	if (!info)
		return -(int)SC_EUSAGE;
	if (info->kind == SC_OP_COLLECTIVE)
		return sc_err_set(err, SC_EUSAGE,
				  "--beside takes a kernel; of a collective see stepcast c3");
	rc = sc_op_args_parse(info, words + 1, n - 1, arena, &op_args, err);
	if (rc)
		return rc;
	sc_op_make(info, &op_args, device, out);
	return check_math(&args->common, device, out, err);
}

/* Says how long both take together, and which resource limits them the longest. */
static int describe_beside(const struct op_command_args *args, const struct sc_device *device,
			   const struct sc_op *op, struct sc_arena *arena, struct facts *facts,
			   struct sc_err *err)
{
	struct sc_op both[2] = {*op};
	struct sc_c3_kernels k;
	struct sc_c3_study *study;
	double longest_us = 0, from_us = 0;
	int rc = read_beside(args, device, arena, &both[1], err), limit = SC_C3_NO_LIMIT;

	if (rc)
		return rc;
	study = sc_c3_study_create();
	rc = sc_c3_two_kernels(study, device, both, &k, err);
	sc_c3_study_destroy(study);
	if (rc)
		return rc;
	for (size_t i = 0; i < k.limits.n; from_us = k.limits.at[i++].until_us)
		if (k.limits.at[i].until_us - from_us > longest_us) {
			longest_us = k.limits.at[i].until_us - from_us;
			limit = k.limits.at[i].what;
		}
	add_real(facts, "beside_alone_us", "us", k.alone_us[1]);
	add_real(facts, "end_us", "us", k.end_us[0]);
	add_real(facts, "beside_end_us", "us", k.end_us[1]);
	add_real(facts, "together_us", "us", fmax(k.end_us[0], k.end_us[1]));
	add_real(facts, "speedup", "",
		 (k.alone_us[0] + k.alone_us[1]) / fmax(k.end_us[0], k.end_us[1]));
	add_text(facts, "together_limit", sc_c3_limit_names[limit]);
	return 0;
}

struct result {
	const struct op_command_args *args;
	const struct sc_op_kind_info *info;
	struct facts facts;
};

static int describe_op(struct result *result, struct sc_arena *arena, struct sc_err *err)
{
	const struct op_command_args *args = result->args;
	const struct sc_op_kind_info *info = result->info;
	struct facts *facts = &result->facts;
	const struct sc_arg_list *words = &args->common.words;
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_cli_network network;
	struct sc_op_args op_args;
	struct sc_op op;
	int rc = sc_op_args_parse(info, words->at + 1, words->n - 1, arena, &op_args, err);

	if (rc)
		return rc;
	if (info->kind == SC_OP_COLLECTIVE && args->beside)
		return sc_err_set(err, SC_EUSAGE,
				  "--beside is of a kernel; of a collective see stepcast c3");
	if (info->kind == SC_OP_COLLECTIVE) {
		sc_op_make(info, &op_args, NULL, &op);
		rc = sc_cli_network(&(struct sc_op_cluster){args->cluster, args->device,
							    op_args.ranks, op_args.nodes},
				    arena, request, &network, err);
		if (rc == 0)
			describe_collective(&network.fabric, &network.span, &op,
					    request->fabric_profile.spread_frac, facts);
		return rc;
	}
	if (!args->device)
		return sc_err_set(err, SC_EUSAGE, "%s needs --device NAME", info->name);
	rc = sc_device_load(args->device, arena, &request->device, err);
	if (rc)
		return rc;
	sc_op_make(info, &op_args, &request->device, &op);
	rc = check_math(&args->common, &request->device, &op, err);
	if (rc == 0)
		describe_kernel(&args->common, &request->device, &op, facts);
	if (rc == 0 && args->beside)
		rc = describe_beside(args, &request->device, &op, arena, facts, err);
	return rc;
}

static void put_op_document(const void *ctx, struct sc_json *json)
{
	const struct result *result = ctx;

	sc_json_init(json, "stepcast/op", OP_VERSION);
	sc_json_text(json, json->root, "op", result->info->name);
	for (const struct fact *f = result->facts.at; f < result->facts.at + result->facts.n; f++)
		if (f->kind == FACT_REAL)
			sc_json_real(json, json->root, f->key, f->number);
		else if (f->kind == FACT_COUNT)
			sc_json_int(json, json->root, f->key, (int64_t)f->number);
		else if (f->kind == FACT_TEXT)
			sc_json_text(json, json->root, f->key, f->text);
		else
			sc_json_bool(json, json->root, f->key, f->number > 0);
}

static void put_all(const void *ctx, struct sc_strbuf *out)
{
	const struct result *result = ctx;

	for (const struct fact *f = result->facts.at; f < result->facts.at + result->facts.n; f++)
		if (f->kind == FACT_REAL)
			sc_strbuf_printf(out, "%-14s %12.2f%s%s\n", f->key, f->number,
					 *f->unit ? " " : "", f->unit);
		else if (f->kind == FACT_COUNT)
			sc_strbuf_printf(out, "%-14s %12.0f\n", f->key, f->number);
		else
			sc_strbuf_printf(out, "%-14s %12s\n", f->key,
					 f->kind == FACT_TEXT ? f->text
					 : f->number > 0      ? "yes"
							      : "no");
}

static const struct sc_forms forms = {.json = put_op_document, .text = put_all};

static int op(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct op_command_args *args = into;
	struct sc_arena *arena = call->arena;
	struct result result = {.args = args};
	int rc;

	if (args->common.words.n == 0)
		return sc_err_set(
			err, SC_EUSAGE,
			"op needs a KIND: gemm, attention, attention_decode, rowwise, optimizer, embedding or collective");
	result.info = sc_op_kind_find(args->common.words.at[0], err);
	if (!result.info)
		return -(int)SC_EUSAGE;
	rc = describe_op(&result, arena, err);
	return rc ? rc : sc_cli_give(call, &forms, &result, err);
}

const struct sc_command sc_command_op = {
	.name = "op",
	.summary = "time one operation on one GPU, or one collective",
	.synopsis =
		"KIND --device NAME KEY=VALUE... [--beside 'KIND KEY=VALUE...'] [--cluster FILE] [--json]",
	.details =
		"Says how long one operation takes, what each limit alone would take, which one limits it, the 80 % band, "
		"and whether the model extrapolates.\n\n"
		"  gemm        m= n= k= [batch=] [sums_rows=] [dtype=]\n"
		"              [regime=: step (default), sustained or burst, as fit has them]\n"
		"  attention   batch= heads= seq= head_dim= [kv_heads=] [seq_kv=] [causal=] [pass=fwd|bwd] [dtype=]\n"
		"  attention_decode  batch= heads= kv_len= head_dim= [kv_heads=] [kv_dtype=] [dtype=]: one new token a "
		"sequence\n"
		"  rowwise     rows= cols= [op=layernorm|rmsnorm|gelu|softmax|add] [pass=fwd|bwd] [read_bytes=] "
		"[write_bytes=] [dtype=]\n"
		"  optimizer   params= [bytes=]\n"
		"  embedding   rows= dim= batch= [pooling=] [tables=] [zipf=] [reuse=] [pass=fwd|bwd]\n"
		"              [optimizer=sgd|rowwise_adagrad|adagrad|adam|atomic_sgd] [dtype=]\n"
		"              [kernel=tbe|tbe_hipified|hugectr|pytorch]\n"
		"  collective  bytes= ranks= [nodes=] [kind=all_reduce|all_gather|reduce_scatter|broadcast|\n"
		"              reduce|gather|scatter|all_to_all|send_recv] [dtype=]\n\n"
		"dtype is fp32, tf32, fp16 (default), bf16 or fp8. read_bytes and write_bytes are per element, the "
		"optimizer's bytes per parameter. A collective's bytes are nccl-tests' size. One kernel looks up all "
		"tables of an embedding, pooling times for each sample of the batch. How often rows come back follows "
		"Zipf's law with that exponent (0: all rows alike), a profile of configs/reuse or a sample of indices (.txt, .npy, .bin); "
		"without any, the default profile.\n\n"
		"  stepcast op gemm --device a100-sxm-80gb m=8192 n=6144 k=6144",
	.words = "gemm attention attention_decode rowwise optimizer embedding collective",
	.options = OPTIONS,
	.args_bytes = sizeof(struct op_command_args),
	.run = op,
};
