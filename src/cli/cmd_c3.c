/* stepcast c3: what overlapping a GEMM and a collective gains under each policy. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/start.h"
#include "lib/options.h"
#include "report/c3_report.h"
#include "study/c3/c3.h"
#include "study/c3/c3_recording.h"
#include "study/evaluate/evaluate.h"

struct c3_args {
	struct sc_common common;
	struct sc_arg_list policies, by, sets;
	struct sc_arg_list gemms, collectives; /* every product with every collective */
	const char *table, *measured, *from, *sizes, *report, *cluster, *device;
	int64_t gpus;     /* of the collective; 0: those of the GPU's usual node */
	int64_t channels; /* 0: what the library takes */
	int64_t experts;  /* of each product; 0: 1 */
	int kind;         /* of sc_c3_kind_names */
	int json;
};

#define MAX_SIZE 1e12

static int parse_gemm(const char *text, struct sc_arena *arena, struct sc_op *out,
		      struct sc_err *err)
{
	char *rest = NULL;
	const char *word = strtok_r(sc_arena_strdup(arena, text), ",", &rest);
	double size[3] = {0};
	int dtype = SC_BF16;
	bool ok = true;

	for (int i = 0; i < 3; i++) {
		ok = ok && word && sc_parse_double(word, &size[i]) && size[i] >= 1 &&
		     size[i] <= MAX_SIZE;
		word = strtok_r(NULL, ",", &rest);
	}
	if (!ok || (word && (*rest || sc_enum_parse(sc_dtype_names, word, &dtype, NULL))))
		return sc_err_set(err, SC_EUSAGE,
				  "--gemm: expected M,N,K[,DTYPE] as 8192,8192,8192,bf16, got "
				  "\"%.64s\"",
				  text);
	*out = (struct sc_op){.kind = SC_OP_GEMM, .dtype = (enum sc_dtype)dtype};
	out->u.gemm = (struct sc_gemm_shape){.batch = 1, .m = size[0], .n = size[1], .k = size[2]};
	return 0;
}

/* The machine, and a transfer over its GPUs without a shape. */
static int load_machine(const struct c3_args *args, struct sc_arena *arena, struct sc_transfer *out,
			struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_cli_network *network = sc_arena_calloc(arena, 1, sizeof(*network));
	const struct sc_op_cluster given = {args->cluster, args->device, args->gpus, 0};
	int rc = sc_cli_network(&given, arena, request, network, err);

	*out = (struct sc_transfer){.device = &request->device,
				    .fabric = &network->fabric,
				    .n_ranks = network->span.n_ranks,
				    .n_nodes = network->span.n_nodes,
				    .channels = (double)args->channels,
				    .max_ranks_per_node = network->span.max_ranks_per_node};
	if (rc == 0 && out->n_ranks < 2)
		rc = sc_err_set(err, SC_EUSAGE, "--gpus: a collective needs two or more");
	return rc;
}

static int c3_words_pairs(const struct c3_args *args, struct sc_arena *arena,
			  struct sc_c3_pairs *out, struct sc_err *err)
{
	struct sc_c3_named named = {.name = ""};
	struct sc_c3_pair *pair = &named.pair;
	int rc = load_machine(args, arena, &pair->transfer, err);

	if (rc == 0 && pair->transfer.n_nodes > 1 &&
	    sc_c3_kind_names[args->kind].value >= SC_C3_DISPATCH_EXPERTS &&
	    sc_c3_kind_names[args->kind].value < SC_N_C3_KINDS)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"--kind %s: the experts of more than one node are not modelled: "
			"their tokens share NICs, as predict and sweep of a config have it",
			sc_c3_kind_names[args->kind].name);

	for (size_t g = 0; rc == 0 && g < args->gemms.n; g++) {
		rc = parse_gemm(args->gemms.at[g], arena, &pair->gemm, err);
		pair->gemm.u.gemm.batch = fmax(1, (double)args->experts);
		pair->gemm.u.gemm.m /= pair->gemm.u.gemm.batch;
		if (rc == 0 && pair->gemm.u.gemm.m < 1)
			rc = sc_err_set(err, SC_EUSAGE, "--experts: more than the %.0f rows of %s",
					pair->gemm.u.gemm.m * pair->gemm.u.gemm.batch,
					args->gemms.at[g]);
		pair->transfer.shape.dtype = pair->gemm.dtype;
		for (size_t c = 0; rc == 0 && c < args->collectives.n; c++) {
			const char *text = args->collectives.at[c], *colon = strchr(text, ':');
			struct sc_collective_shape *shape = &pair->transfer.shape;

			shape->bytes = colon ? sc_cli_size(colon + 1, strlen(colon + 1)) : 0;
			if (!(shape->bytes >= 1 && shape->bytes <= MAX_SIZE) ||
			    !sc_cli_collective(text, (size_t)(colon - text), &shape->kind) ||
			    shape->kind >= SC_SEND_RECV)
				return sc_err_set(
					err, SC_EUSAGE,
					"--collective: expected KIND:BYTES as all_gather:64M, got "
					"\"%.64s\"; kinds: all_reduce, all_gather, "
					"reduce_scatter, broadcast, all_to_all",
					text);
			if (!sc_c3_kind_of(sc_c3_kind_names[args->kind].value, shape->kind,
					   &pair->kind))
				return sc_err_set(
					err, SC_EUSAGE, "--kind: %s does not go with it: %s",
					sc_collective_names[shape->kind], SC_C3_KIND_FITS);
			named.name =
				sc_arena_printf(arena, "%s beside %s", args->gemms.at[g], text);
			SC_VEC_PUSH(&out->list, named);
		}
	}
	return rc;
}

/* The names of sc_c3_kind_names. */
static const char *const KINDS[] = {"independent",         "all_gather_gemm",
				    "gemm_reduce_scatter", "all_to_all_gemm",
				    "gemm_all_reduce",     "gemm_all_to_all",
				    "gemm_all_gather",     "dispatch_experts",
				    "experts_combine",     NULL};

#define SC_ARGS struct c3_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_IN(
		table, "table", "CASES.csv",
		"one pair per row: device, gpus, dtype, kind, m, n, k, collective, bytes, policy; a row without policy is "
		"tried under all"),
	SC_OPT_IN(
		measured, "measured", "TABLE.csv",
		"the same with measured compute_us, comm_us, serial_us, overlapped_us: put predictions beside them"),
	SC_OPT_IN(from, "from", "DIR",
		  "a recording: kernels that ran beside communication, and the same alone"),
	SC_OPT_LIST(gemms, "gemm", "M,N,K[,DTYPE]",
		    "a matrix product, in bf16 unless DTYPE says otherwise; may be given again"),
	SC_OPT_LIST(collectives, "collective", "KIND:BYTES",
		    "what runs beside each of them, as all_gather:64M; may be given again"),
	SC_OPT_CHOICE(kind, "kind", "KIND", KINDS,
		      "with --gemm: independent (default), or what the product needs or sends"),
	SC_OPT_IN(cluster, "cluster", "FILE",
		  "with --gemm: the cluster, such as clusters/selene.yaml"),
	SC_OPT_TEXT(
		device, "device", "ID",
		"with --gemm: the GPU; with --from: predict for it (default: the one that the trace names)"),
	SC_OPT_INT(gpus, "gpus", "N", 2, 1 << 20,
		   "with --gemm: ranks of the collective (default: the GPUs of a node)"),
	SC_OPT_INT(experts, "experts", "N", 1, 1 << 20,
		   "with --gemm: products of as many experts, which share its M rows alike"),
	SC_OPT_INT(channels, "channels", "N", 1, 1024,
		   "with --gemm: channels of the collective, an SM each (NCCL_MAX_NCHANNELS)"),
	SC_OPT_TEXT(
		sizes, "bytes", "FROM:TO",
		"sizes of the collective for which to find the best policy, doubled each time (default 1M:1G)"),
	SC_OPT_SET(sets),
	SC_OPT_LIST(policies, "policy", "NAME",
		    "predict each pair under this policy in place of its own; may be given again"),
	SC_OPT_LIST(by, "by", "COLUMN", "also score each value of the column; may be given again"),
	SC_OPT_OUT(report, "report", "FILE.html|svg|csv|json",
		   "also write the result as a page, as its figure, or as rows"),
	SC_OPT_JSON(json),
	{0},
};

static int c3_from(const struct c3_args *args, const struct sc_cli_call *call, struct sc_err *err)
{
	struct sc_c3_recording recording;
	int rc;

	if (args->policies.n || args->by.n)
		return sc_err_set(err, SC_EUSAGE, "--from is of a recording: no --policy or --by");
	rc = sc_c3_recording_load(args->from, args->device, &recording, err);
	if (rc)
		return rc;
	sc_cli_warn_loss(&args->common, &recording.loss);
	sc_cli_warn_all(&args->common, &recording.warnings);
	rc = sc_cli_give(call, &sc_c3_recording_forms, &recording, err);
	sc_c3_recording_release(&recording);
	return rc;
}

/* ---- pairs under every policy ---- */

/* All that advice on pairs needs, released together. */
struct session {
	const struct c3_args *args;
	struct sc_catalog *catalog;
	struct sc_evaluator *by; /* of a config: does it fit? */
	struct sc_c3_pairs pairs;
	struct sc_c3_study *study;
	struct sc_c3_advices advices;
};

static int read_config(struct session *s, struct sc_arena *arena, struct sc_err *err)
{
	const char *path = s->args->common.words.at[0];
	struct sc_config config;
	int rc = sc_cli_config(path, &s->args->sets, arena, &config, err);

	s->by = sc_evaluator_create(s->catalog);
	if (rc == 0)
		rc = sc_evaluate_resolve(
			s->by, &(struct sc_candidate){.base = &config, .file = path}, err);
	if (rc == 0 && s->by->request.config.model.family != SC_DLRM)
		rc = sc_evaluate_request(s->by, err);
	if (rc == 0)
		rc = sc_c3_config_pairs(&s->by->request, arena, &s->pairs, err);
	if (rc == 0 && s->pairs.list.n == 0)
		rc = sc_err_set(err, SC_EVALUE,
				"%.100s: no computation runs beside a collective: one GPU, or none "
				"in its layers",
				path);
	return rc;
}

static int advise_all(struct session *s, struct sc_arena *arena, struct sc_err *err)
{
	const size_t n = s->pairs.list.n;
	struct sc_c3_advice *advice = sc_arena_calloc(arena, n + 1, sizeof(*advice));
	const struct c3_args *args = s->args;
	struct sc_c3_advise_opts opts = {.n = args->policies.n};
	const char *sizes = args->sizes ? args->sizes : "1M:1G", *colon = strchr(sizes, ':');
	int rc = 0;

	if (opts.n > SC_C3_MAX_CHOICES)
		return sc_err_set(err, SC_EUSAGE, "--policy: at most %d at once",
				  SC_C3_MAX_CHOICES);
	for (size_t i = 0; rc == 0 && i < opts.n; i++)
		rc = sc_c3_choice_parse(args->policies.at[i], "--policy: ", &opts.choice[i], err);
	if (rc == 0 && colon && (args->sizes || !args->table)) { /* tables say theirs */
		opts.from_bytes = sc_cli_size(sizes, (size_t)(colon - sizes));
		opts.to_bytes = sc_cli_size(colon + 1, strlen(colon + 1));
	}
	if (rc == 0 && (args->sizes || !args->table) &&
	    (!(opts.from_bytes >= 1) || opts.from_bytes > opts.to_bytes ||
	     opts.to_bytes > MAX_SIZE))
		rc = sc_err_set(err, SC_EUSAGE, "--bytes: expected FROM:TO as 1M:1G, got \"%.64s\"",
				sizes);
	s->study = sc_c3_study_create();
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = sc_c3_advise(s->study, &s->pairs.list.at[i], &opts, &advice[i], err);
	s->advices = (struct sc_c3_advices){advice, n,
					    s->by && s->by->prediction.memory.capacity_gib > 0
						    ? &s->by->prediction.memory
						    : NULL,
					    s->by ? &s->by->request : NULL};
	return rc;
}

static int advise_pairs(const struct c3_args *args, const struct sc_csv *table,
			struct sc_cli_call *call, struct sc_err *err)
{
	struct sc_arena *arena = call->arena;
	struct session *s = sc_arena_calloc(arena, 1, sizeof(*s));
	int rc;

	s->args = args;
	s->catalog = call->catalog;
	rc = table           ? sc_c3_table_pairs(table, arena, &s->pairs, err)
	     : args->gemms.n ? c3_words_pairs(args, arena, &s->pairs, err)
			     : read_config(s, arena, err);
	if (rc == 0)
		rc = advise_all(s, arena, err);
	if (rc == 0) {
		if (s->by)
			sc_cli_warn_all(&args->common, &s->by->request.warnings);
		rc = sc_cli_give(call, &sc_c3_advice_forms, &s->advices, err);
	}
	sc_c3_study_destroy(s->study);
	sc_evaluator_destroy(s->by);
	SC_VEC_RELEASE(&s->pairs.list);
	return rc;
}

/* ---- which of them is asked for ---- */

/* One source of pairs, and what goes with it. */
static int check_args(const struct c3_args *args, struct sc_err *err)
{
	const int n = (args->common.words.n > 0) + (args->gemms.n > 0) + (args->table != NULL) +
		      (args->measured != NULL) + (args->from != NULL);

	if (n != 1 || args->common.words.n > 1)
		return sc_err_set(err, SC_EUSAGE,
				  "c3 needs one of CONFIG, --gemm and --collective, --table "
				  "CASES.csv, --measured TABLE.csv and --from DIR");
	if (!args->gemms.n != !args->collectives.n)
		return sc_err_set(err, SC_EUSAGE, "--gemm and --collective go together");
	if (!args->gemms.n && (args->cluster || args->gpus || args->channels))
		return sc_err_set(err, SC_EUSAGE,
				  "--cluster, --gpus and --channels go with --gemm; tables say "
				  "ctas");
	if (!args->gemms.n && !args->from && args->device)
		return sc_err_set(err, SC_EUSAGE,
				  "--device goes with --gemm or --from; tables name theirs");
	if (!args->common.words.n && args->sets.n)
		return sc_err_set(err, SC_EUSAGE, "--set goes with CONFIG");
	return 0;
}

static int c3(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct c3_args *args = into;
	struct sc_arena *arena = call->arena;
	const char *path = args->measured ? args->measured : args->table;
	struct sc_c3_table_opts opts = {.by = args->by.at,
					.n_by = args->by.n,
					.policies = args->policies.at,
					.n_policies = args->policies.n};
	struct sc_c3_choice choice;
	struct sc_c3_table table;
	struct sc_csv csv;
	int rc = check_args(args, err);

	if (rc)
		return rc;
	if (args->from)
		return c3_from(args, call, err);
	if (!path)
		return advise_pairs(args, NULL, call, err);
	rc = sc_csv_load(path, arena, &csv, err);
	if (rc == 0 && args->measured && sc_csv_column(&csv, "overlapped_us") < 0)
		sc_cli_warn(
			&args->common,
			"the table has no column overlapped_us: of overlap nothing is measured");
	if (rc == 0 && args->table && sc_csv_column(&csv, "policy") < 0)
		return advise_pairs(args, &csv, call, err);
	for (size_t i = 0; i < args->policies.n && rc == 0; i++)
		rc = sc_c3_choice_parse(args->policies.at[i], "--policy: ", &choice, err);
	if (rc == 0)
		rc = sc_c3_table_predict(&csv, &opts, arena, &table, err);
	if (rc == 0 && table.n_cases == 0)
		rc = sc_err_at(err, SC_EVALUE, csv.file, 1, 0, "the table has no rows");
	for (size_t i = 0; rc == 0 && table.cases[i].skipped; i++)
		if (i + 1 == table.n_cases) /* all are wrong: bad data, not a result */
			rc = sc_err_at(err, SC_EVALUE, csv.file, 0, 0,
				       "no pair could be predicted; first: %s",
				       table.cases[0].skipped);
	if (rc == 0 && table.n_impossible)
		sc_cli_warn(
			&args->common,
			"%zu of %zu rows cannot be: is a unit or a column wrong? They are scored "
			"all the same; first: %s",
			table.n_impossible, table.n_cases, table.first_impossible);
	return rc ? rc : sc_cli_give(call, &sc_c3_table_forms, &table, err);
}

const struct sc_command sc_command_c3 = {
	.name = "c3",
	.summary = "predict what overlapping computation and communication gains",
	.synopsis =
		"CONFIG | --gemm M,N,K[,DTYPE] --collective KIND:BYTES (--device ID | --cluster FILE) | --table "
		"CASES.csv | --measured TABLE.csv | --from DIR [--policy NAME]... [--by COLUMN]... [--json] "
		"[-o FILE.csv] [--report FILE.html|csv]",
	.details =
		"Predicts computation and a collective together, under a policy: serial, plain (two streams), comm_first "
		"(the collective gets its SMs first), reserve[:N] and comm_first+reserve[:N] (N SMs kept from kernels; the "
		"collective takes as many channels as ever), copy_engine[:N] (N chunks of what a product needs or sends), "
		"copy_engine+cache_relief, chunked[:N] (the GEMM in pieces, as in asynchronous tensor parallelism) and "
		"tile_fused. Without N, stepcast searches for the best number of SMs, and takes as many pieces as ranks; "
		"it rounds N SMs up to whole units of the GPU. A product loses whole waves of its tiles to SMs that it has "
		"not. tile_fused is by Triton's kernels, which read weights anew for each rank's rows; the best kernel (Flux) "
		"reads them once. Copy engines move data and do not add: in independent pairs they take all_gather and all_to_all; "
		"beside a GEMM that makes what is reduced, SMs add what the engines brought, and the gather of an "
		"all-reduce follows.\n\n"
		"kind is independent, all_gather_gemm or all_to_all_gemm (the product needs what comes), "
		"gemm_reduce_scatter, gemm_all_reduce, gemm_all_to_all or gemm_all_gather (its result is sent); "
		"dispatch_experts and experts_combine are a product of each of --experts, which share m alike, and the "
		"all_to_all of their tokens. Ranks are of one node unless --cluster says "
		"otherwise. ctas (--channels) are the channels of NCCL or RCCL, an SM "
		"each; second_us is how much later a table's second kernel was launched. m counts the rows that the GPU multiplies, "
		"gathered ones included; bytes are those of nccl-tests. stepcast predicts an empty compute_us or comm_us. "
		"The verdict says what a policy gains or loses over one after the other, and in brackets where 80 % "
		"of measured pairs of its kind lie: sure where all of that is a gain or a loss. "
		"The ideal speedup is the sum of the isolated times over the longer one, as the policy runs it where that "
		"is shorter (copies of a few microseconds in place of a slow library call); its realised share is (speedup "
		"- 1) / (ideal - 1). A measured comm_us below the predicted one makes copies faster, too; one above it "
		"holds for the library alone.\n\n"
		"The pairs of a CONFIG are the products of its layers before and after collectives of the tensor-, "
		"context- and expert-parallel groups, and its layers beside the reduction of gradients and the gathering "
		"of weights. The pairs of a DLRM are its bottom MLP and the update of its tables beside exchanges and "
		"reductions. --gemm pairs each product with each --collective. stepcast tries each pair under every "
		"policy, and gives the times, the realised share of the ideal speedup, what limits it over time (none: all "
		"runs as if alone), the best policy (the simplest within 1 % of the fastest), and a rule by size of the "
		"collective, with what the rule and each policy alone lose against the best at each size. A class says "
		"which side is longer by 15 %: G-long the computation, C-long the collective. -o FILE.csv writes a row for "
		"each pair and policy, with the best marked, or the rows of --table and --measured.\n\n"
		"--from finds the kernels of a recording that ran beside those of collectives on one GPU, and the same "
		"kernels alone in the same trace: those with the same name, grid, block, registers, shared memory and "
		"shapes of the op (or place in an iteration, if it has no shapes), and collectives of the same kind, size "
		"and group. It says what each side lost, and what the model predicts from the time alone. A stretch is a "
		"maximal interval in which both run; its ideal speedup follows from the times alone of what ran in it, "
		"each side at most the stretch. stepcast replays the iterations as if kernels lost nothing, and under each "
		"policy: serial takes turns, plain is the recording, comm_first and reserve give collectives the SMs of "
		"their blocks while they run or always, and copy engines take those that only move. It cannot replay "
		"policies that cut products into pieces. A replay lasts until host and GPUs are done; collectives last as "
		"long as recorded. -o FILE.csv writes the kernels that ran beside a collective, as `stepcast fit --kind "
		"interference` reads them.",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct c3_args),
	.run = c3,
};
