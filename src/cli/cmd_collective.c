/* stepcast collective: one collective over sizes, beside measured times and an algorithm file. */
#include <math.h>
#include <string.h>

#include "base/fields.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/start.h"
#include "core/foreign/nccl_tests.h"
#include "study/collective/collective_place.h"
#include "study/collective/collective_sizes.h"

enum { MAX_POINTS = 1024 };
#define DEFAULT_SIZES "8:16G:x2"

struct collective_args {
	struct sc_common common;
	const char *device, *cluster, *bytes, *algorithm, *measured, *report, *place, *write;
	struct sc_arg_list beside;
	int64_t ranks, nodes;
	int json;
};

#define SC_ARGS struct collective_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_IN(cluster, "cluster", "FILE", "the cluster, as clusters/dgx-h100.yaml"),
	SC_OPT_TEXT(device, "device", "NAME", "the GPU, as h100-sxm-80gb, in its usual node"),
	SC_OPT_TEXT(
		bytes, "bytes", "N|A:B[:xF]",
		"a size, or sizes from A to B, each F times the one before (default: " DEFAULT_SIZES
		"); K, M, G are powers of 1,024"),
	SC_OPT_INT(nodes, "nodes", "N", 1, 1 << 20,
		   "hosts (default: those that --ranks or the algorithm's GPUs fill, else 1)"),
	SC_OPT_INT(ranks, "ranks", "N", 2, 1 << 20,
		   "GPUs (default: all of the hosts, or the algorithm's)"),
	SC_OPT_IN(
		algorithm, "algorithm", "FILE.xml|NAME[:PROTOCOL[:CxI]]",
		"an algorithm in MSCCL's XML, or a common one by name: proved, walked at each size, and compared with the library's own choice; or one of the library's, as tree"),
	SC_OPT_OUT(
		write, "write", "FILE.xml",
		"write the common algorithm of --algorithm as MSCCL's XML; what is timed is read from it"),
	SC_OPT_IN(
		measured, "measured", "FILE",
		"measured times to put beside: CSV with bytes and time_us, or what nccl-tests printed"),
	SC_OPT_LIST(
		beside, "beside", "KIND:BYTES",
		"another collective that begins with it between the same GPUs, such as all_gather:64M; may be given again"),
	SC_OPT_TEXT(
		place, "place", "G,G...",
		"jobs of G GPUs each on one node at once, each with this collective: say which GPUs to give them (a node "
		"without switches, whose wiring is known)"),
	SC_OPT_REPORT(report),
	SC_OPT_JSON(json),
	{0},
};

/* ---- sizes ---- */

static int bad_sizes(const char *text, struct sc_err *err)
{
	return sc_err_set(
		err, SC_EUSAGE,
		"--bytes: expected a size as 1G, or A:B or A:B:xF with A below B and F above "
		"1, got \"%.64s\"",
		text);
}

static int read_sizes(const char *text, double *bytes, size_t *n, struct sc_err *err)
{
	size_t first = strcspn(text, ":"), second = 0;
	double low = sc_cli_size(text, first), high = low, factor = 2;

	if (text[first]) {
		const char *rest = text + first + 1;

		second = strcspn(rest, ":");
		high = sc_cli_size(rest, second);
		if (rest[second] == ':' &&
		    (rest[second + 1] != 'x' || !sc_parse_double(rest + second + 2, &factor)))
			return bad_sizes(text, err);
	}
	if (!(low > 0) || !(high >= low) || !(factor > 1))
		return bad_sizes(text, err);
	for (*n = 0; low <= high * (1 + 1e-9); low *= factor) {
		if (*n == MAX_POINTS)
			return sc_err_set(err, SC_EUSAGE, "--bytes: more than %d sizes",
					  MAX_POINTS);
		bytes[(*n)++] = floor(low + 0.5);
	}
	return 0;
}

/* ---- the command ---- */

static int unknown_kind(const char *word, struct sc_err *err)
{
	return sc_err_set(
		err, SC_EUSAGE,
		"unknown collective \"%.64s\"; expected all_reduce, all_gather, "
		"reduce_scatter, broadcast, reduce, gather, scatter, all_to_all or send_recv",
		word);
}

/* "all_gather:64M" */
static int read_beside(const struct collective_args *args, struct sc_arena *arena,
		       struct sc_collective_sizes_opts *opts, struct sc_err *err)
{
	struct sc_collective_shape *others =
		sc_arena_calloc(arena, args->beside.n, sizeof(*others));

	for (size_t i = 0; i < args->beside.n; i++) {
		const char *text = args->beside.at[i], *colon = strchr(text, ':');

		others[i].dtype = SC_FP32;
		others[i].bytes = colon ? sc_cli_size(colon + 1, strlen(colon + 1)) : 0;
		if (!(others[i].bytes > 0))
			return sc_err_set(err, SC_EUSAGE,
					  "--beside: expected KIND:BYTES as all_gather:64M, got "
					  "\"%.64s\"",
					  text);
		if (!sc_cli_collective(text, (size_t)(colon - text), &others[i].kind))
			return unknown_kind(sc_arena_strndup(arena, text, (size_t)(colon - text)),
					    err);
	}
	opts->others = others;
	opts->n_others = args->beside.n;
	return 0;
}

/* The library's, "tree"; or a common algorithm: "ring_all_reduce", or "ring_all_reduce:LL:4x8". */
struct named {
	int asked; /* 1 + enum sc_algo; 0: none of the library's */
	int kind;  /* enum sc_msccl_kind; -1: a file */
	enum sc_proto proto;
	int64_t channels, instances;
};

static int bad_name(const char *text, struct sc_err *err)
{
	return sc_err_set(
		err, SC_EUSAGE,
		"--algorithm: expected NAME, NAME:PROTOCOL or NAME:PROTOCOL:CHANNELSxINSTANCES "
		"with LL, LL128 or Simple and up to %d channels in all, as "
		"ring_all_reduce:LL:4x8, got \"%.64s\"",
		SC_MSCCL_MAX_CHANNELS, text);
}

static int read_named(const char *text, struct sc_arena *arena, struct named *out,
		      struct sc_err *err)
{
	size_t name = text ? strcspn(text, ":") : 0, proto;
	const char *lanes, *x;
	enum sc_algo algo;

	*out = (struct named){0, -1, SC_PROTO_SIMPLE, 1, 1};
	if (text && sc_algo_by_name(text, &algo))
		out->asked = 1 + (int)algo;
	for (int i = 0; i < SC_MSCCL_N_KINDS && text; i++)
		if (strlen(sc_msccl_kind_names[i]) == name &&
		    strncmp(text, sc_msccl_kind_names[i], name) == 0)
			out->kind = i;
	if (out->kind < 0 || !text[name])
		return 0;
	proto = strcspn(text + name + 1, ":");
	for (int i = 0; i <= SC_N_PROTOS; i++) {
		if (i == SC_N_PROTOS)
			return bad_name(text, err);
		out->proto = (enum sc_proto)i;
		if (strlen(sc_msccl_proto_names[i]) == proto &&
		    strncmp(text + name + 1, sc_msccl_proto_names[i], proto) == 0)
			break;
	}
	if (!text[name + 1 + proto])
		return 0;
	lanes = text + name + 2 + proto; /* "4x8" */
	x = strchr(lanes, 'x');
	if (x &&
	    sc_parse_int(sc_arena_strndup(arena, lanes, (size_t)(x - lanes)), &out->channels) &&
	    sc_parse_int(x + 1, &out->instances) && out->channels > 0 && out->instances > 0 &&
	    out->channels <= SC_MSCCL_MAX_CHANNELS &&
	    out->instances <= SC_MSCCL_MAX_CHANNELS / out->channels)
		return 0;
	return bad_name(text, err);
}

static int build_algorithm(const struct named *named, const struct sc_cli_network *network,
			   struct sc_arena *arena, struct sc_msccl *out, struct sc_err *err)
{
	const struct sc_msccl_recipe recipe = {.kind = (enum sc_msccl_kind)named->kind,
					       .proto = named->proto,
					       .n_gpus = network->span.n_ranks,
					       .gpus_per_node = network->span.max_ranks_per_node,
					       .channels = (int)named->channels,
					       .instances = (int)named->instances};
	int rc = sc_msccl_recipe_check(&recipe, err);

	if (rc)
		return rc;
	sc_msccl_build(&recipe, arena, out);
	return sc_msccl_check(out, err);
}

/* The written file is read again and proved, and stands for the algorithm. */
static int write_algorithm(const char *path, struct sc_arena *arena, struct sc_msccl *algo,
			   struct sc_err *err)
{
	struct sc_strbuf text = {0};
	int rc;

	sc_msccl_write(algo, &text);
	rc = sc_cli_write_text(path, &text, err);
	if (rc == 0)
		rc = sc_msccl_parse(&(struct sc_source){sc_strbuf_get(&text), text.n, path}, arena,
				    algo, err);
	if (rc == 0)
		rc = sc_msccl_check(algo, err);
	sc_strbuf_release(&text);
	return rc;
}

static int load_algorithm(const struct collective_args *args, struct sc_arena *arena,
			  struct sc_msccl *out, struct sc_err *err)
{
	const char *near = sc_nearest(args->algorithm, sc_msccl_kind_names, SC_MSCCL_N_KINDS);
	int rc;

	if (!near)
		near = sc_nearest(args->algorithm, sc_algo_names, SC_N_ALGOS);
	if (near && !strpbrk(args->algorithm, "./"))
		return sc_err_set(err, SC_EUSAGE,
				  "unknown algorithm \"%.64s\"; did you mean \"%s\"?",
				  args->algorithm, near);
	if (!strpbrk(args->algorithm, "./"))
		return sc_err_set(err, SC_EUSAGE,
				  "unknown algorithm \"%.64s\"; name one of stepcast collective "
				  "--help, or give a file.xml",
				  args->algorithm);
	rc = sc_msccl_load(args->algorithm, arena, out, err);
	return rc ? rc : sc_msccl_check(out, err);
}

/* Loads the network; an algorithm says for how many GPUs, where --ranks and --nodes do not. */
static int load_network(const struct collective_args *args, const struct sc_msccl *file,
			struct sc_arena *arena, struct sc_cli_network *out, struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_op_cluster asked = {args->cluster, args->device, args->ranks, args->nodes};
	int64_t per_node;
	int rc;

	if (file && args->ranks == 0) {
		rc = sc_op_cluster_load(&asked, arena, request, err);
		if (rc)
			return rc;
		per_node = request->config.cluster.gpus_per_node;
		asked.ranks = file->n_gpus;
		if (args->nodes == 0)
			asked.nodes = (file->n_gpus + per_node - 1) / per_node;
	}
	return sc_cli_network(&asked, arena, request, out, err);
}

/* ---- jobs on one node ---- */

/* "4,2,2" */
static int read_jobs(const char *text, struct sc_arena *arena, int *sizes, size_t *n,
		     struct sc_err *err)
{
	for (*n = 0; *n < SC_PLACE_MOST_JOBS; text++) {
		size_t length = strcspn(text, ",");
		int64_t size;

		if (!sc_parse_int(sc_arena_strndup(arena, text, length), &size) || size < 1 ||
		    size > SC_WIRING_MOST)
			break;
		sizes[(*n)++] = (int)size;
		text += length;
		if (!*text)
			return 0;
	}
	return sc_err_set(err, SC_EUSAGE,
			  "--place: expected up to %d jobs' GPUs as 4,2,2, each 1 to %d",
			  SC_PLACE_MOST_JOBS, SC_WIRING_MOST);
}

static int place_jobs(const struct collective_args *args,
		      const struct sc_collective_sizes_opts *asked, const struct sc_cli_call *call,
		      struct sc_err *err)
{
	int sizes[SC_PLACE_MOST_JOBS], rc;
	struct sc_collective_place_opts opts = {.kind = asked->kind,
						.bytes = asked->bytes[0],
						.fabric = asked->fabric,
						.sizes = sizes};
	struct sc_collective_place found;

	if (asked->n != 1)
		return sc_err_set(err, SC_EUSAGE, "--place: give one size, as --bytes 64M");
	rc = read_jobs(args->place, call->arena, sizes, &opts.n, err);
	if (rc == 0)
		rc = sc_collective_place(&opts, &found, err);
	return rc ? rc : sc_cli_give(call, &sc_place_forms, &found, err);
}

static int collective(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct collective_args *args = into;
	struct sc_arena *arena = call->arena;
	struct sc_collective_sizes_opts opts = {.n = 0};
	struct sc_collective_sizes sizes;
	struct sc_cli_network network = {0};
	struct sc_msccl file = {0};
	struct sc_csv measured = {0};
	double *bytes = sc_arena_alloc(arena, MAX_POINTS * sizeof(*bytes));
	struct named named = {.kind = -1};
	const char *kind = args->common.words.at[0];
	int rc = sc_cli_collective(kind, strlen(kind), &opts.kind) ? 0 : unknown_kind(kind, err);

	if (rc == 0)
		rc = read_sizes(args->bytes ? args->bytes : DEFAULT_SIZES, bytes, &opts.n, err);
	if (rc == 0)
		rc = read_beside(args, arena, &opts, err);
	if (rc == 0)
		rc = read_named(args->algorithm, arena, &named, err);
	if (rc == 0 && named.kind == SC_MSCCL_ALL_TO_NEXT && opts.kind != SC_SEND_RECV)
		rc = sc_err_set(err, SC_EUSAGE,
				"all_to_next is of send_recv, not of %s: name an algorithm of %s "
				"or time send_recv",
				sc_collective_names[opts.kind], sc_collective_names[opts.kind]);
	opts.asked = named.asked;
	opts.file = args->algorithm && !named.asked ? &file : NULL;
	if (rc == 0 && opts.file && named.kind < 0)
		rc = load_algorithm(args, arena, &file, err);
	if (rc == 0)
		rc = load_network(args, named.kind < 0 ? opts.file : NULL, arena, &network, err);
	if (rc == 0 && named.kind >= 0)
		rc = build_algorithm(&named, &network, arena, &file, err);
	if (rc == 0 && args->write && named.kind < 0)
		rc = sc_err_set(err, SC_EUSAGE,
				"--write: name a common algorithm, as --algorithm "
				"ring_all_reduce:LL:4x8");
	if (rc == 0 && args->write)
		rc = write_algorithm(args->write, arena, &file, err);
	if (rc == 0 && args->measured)
		rc = sc_nccl_tests_load(args->measured, arena, &measured, err);
	opts.measured = args->measured ? &measured : NULL;
	opts.bytes = bytes;
	opts.fabric = &network.fabric;
	opts.span = network.span;
	opts.device = network.device;
	if (rc == 0 && args->place)
		return place_jobs(args, &opts, call, err);
	if (rc == 0)
		rc = sc_collective_sizes_run(&opts, arena, &sizes, err);
	return rc ? rc : sc_cli_give(call, &sc_collective_forms, &sizes, err);
}

const struct sc_command sc_command_collective = {
	.name = "collective",
	.n_words = 1,
	.words_asked = "one KIND",
	.summary = "time a collective over sizes, or an algorithm file",
	.synopsis =
		"KIND (--cluster FILE | --device NAME) [--bytes N|A:B[:xF]] [--nodes N] [--ranks N] "
		"[--algorithm FILE.xml|NAME] [--write FILE.xml] [--beside KIND:BYTES]... [--place G,G...] [--measured FILE] [--report FILE.html] [--json]",
	.details =
		"Says for each size how long the collective takes, its bandwidths as nccl-tests defines them, which "
		"algorithm, protocol and how many channels the library takes, and what limits it. KIND is all_reduce, "
		"all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all or send_recv.\n\n"
		"An algorithm file is MSCCL's XML. stepcast first proves it on symbols: sends and receives match, none "
		"waits in a circle, and every rank gets what the collective promises in whatever order its thread blocks "
		"run. An error names the rank, thread block and step. Then it walks the thread blocks at each size, and "
		"names the sizes at which the algorithm beats the library; `deadlock` marks a size at which a file's "
		"buffers are full on both sides of a pair that sends before it receives. Common algorithms need no file "
		"and run at every size, with one channel and the Simple protocol, or with a protocol and numbers of "
		"channels and instances, as in ring_all_reduce:LL:4x8: ring_all_gather, ring_all_gather_fused, "
		"ring_all_reduce, pairs_all_gather, pairs_all_reduce, pairs_all_to_all, two_step_all_to_all, "
		"hierarchical_all_reduce (chains in nodes, and a ring between them for each part), tree_all_reduce (chains "
		"in nodes, a tree of their heads), and all_to_next (each rank sends to the next, between nodes over all "
		"NICs; KIND is what it is compared with, as send_recv).\n\n"
		"A name forces one of the library's own algorithms: ring, tree, nvls, pat, collnet; or one that it takes "
		"where buffers are registered for it: symmetric (kernels over symmetric memory, NCCL 2.27 on), copy_engine "
		"(no SMs; all_gather, gather, scatter and all_to_all, NCCL 2.28 on); or hierarchical: one call after the "
		"other inside nodes and between them. cluster.algorithms takes these names, too.\n\n"
		"--beside starts other collectives at the same time, each on a communicator of its own. They share links, "
		"NICs, SMs and memory; the result also says when this one ends.\n\n"
		"--place runs several jobs on one node at once, each with this collective between its own GPUs. It "
		"compares giving each job the first GPUs that are free with the best of all ways, by rings that it "
		"searches on the node's wiring; rings of several jobs that cross one link share it.\n\n"
		"  stepcast collective all_reduce --cluster clusters/dgx-h100.yaml --bytes 8:16G:x2",
	.words =
		"all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all send_recv",
	.options = OPTIONS,
	.args_bytes = sizeof(struct collective_args),
	.run = collective,
};
