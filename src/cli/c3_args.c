/* See the header. */
#include "cli/c3_args.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "cli/network.h"
#include "cli/op_args.h"
#include "models/collective_files.h"

#define MAX_SIZE 1e12

/* A number with K, M or G behind it. */
static bool parse_size(const char *text, double *out)
{
	static const struct {
		char letter;
		double bytes;
	} units[] = {{'K', SC_BYTES_PER_KIB}, {'M', SC_BYTES_PER_MIB}, {'G', SC_BYTES_PER_GIB}};
	char number[32];
	size_t n = strlen(text);
	double unit = 1;

	for (size_t i = 0; n && i < 3; i++)
		if (text[n - 1] == units[i].letter)
			unit = units[i].bytes;
	n -= unit > 1;
	if (n >= sizeof(number))
		return false;
	memcpy(number, text, n);
	number[n] = '\0';
	if (!sc_parse_double(number, out))
		return false;
	*out *= unit;
	return *out >= 1 && *out <= MAX_SIZE;
}

int sc_c3_sizes_parse(const char *text, double *from, double *to, struct sc_err *err)
{
	const char *colon = strchr(text, ':');
	char first[32] = "";

	if (colon && (size_t)(colon - text) < sizeof(first))
		memcpy(first, text, (size_t)(colon - text));
	if (!parse_size(first, from) || !parse_size(colon + 1, to) || *from > *to)
		return sc_err_set(err, SC_EUSAGE,
				  "--bytes: expected FROM:TO as 1M:1G, got \"%.64s\"", text);
	return 0;
}

static int parse_dtype(const char *text, enum sc_dtype *out)
{
	for (const struct sc_name *n = sc_dtype_names; n->name; n++)
		if (strcmp(n->name, text) == 0) {
			*out = (enum sc_dtype)n->value;
			return 0;
		}
	return -1;
}

static int parse_gemm(const char *text, struct sc_arena *arena, struct sc_op *out,
		      struct sc_err *err)
{
	char *rest = NULL;
	const char *word = strtok_r(sc_arena_strdup(arena, text), ",", &rest);
	double size[3] = {0};
	bool ok = true;

	*out = (struct sc_op){.kind = SC_OP_GEMM, .dtype = SC_BF16};
	for (int i = 0; i < 3; i++) {
		ok = ok && word && sc_parse_double(word, &size[i]) && size[i] >= 1 &&
		     size[i] <= MAX_SIZE;
		word = strtok_r(NULL, ",", &rest);
	}
	if (!ok || (word && (*rest || parse_dtype(word, &out->dtype))))
		return sc_err_set(err, SC_EUSAGE,
				  "--gemm: expected M,N,K[,DTYPE] as 8192,8192,8192,bf16, got "
				  "\"%.64s\"",
				  text);
	out->u.gemm = (struct sc_gemm_shape){.batch = 1, .m = size[0], .n = size[1], .k = size[2]};
	return 0;
}

static int parse_collective(const char *text, struct sc_collective_shape *out, struct sc_err *err)
{
	const char *colon = strchr(text, ':');

	for (int i = 0; colon && i < SC_SEND_RECV; i++) {
		const size_t n = strlen(sc_collective_names[i]);

		if (n != (size_t)(colon - text) || strncmp(text, sc_collective_names[i], n) != 0)
			continue;
		out->kind = (enum sc_collective)i;
		if (parse_size(colon + 1, &out->bytes))
			return 0;
		break;
	}
	return sc_err_set(err, SC_EUSAGE,
			  "--collective: expected KIND:BYTES as all_gather:64M, got \"%.64s\"; "
			  "kinds: all_reduce, all_gather, reduce_scatter, broadcast, all_to_all",
			  text);
}

static const char *name_of(const struct sc_c3_words *words, size_t gemm, size_t collective,
			   struct sc_arena *arena)
{
	const char *a = words->gemms.at[gemm], *b = words->collectives.at[collective];
	char *name = sc_arena_calloc(arena, strlen(a) + strlen(b) + sizeof(" beside "), 1);

	strcpy(name, a);
	strcat(name, " beside ");
	return strcat(name, b);
}

/* The machine, and a transfer over its GPUs without a shape. */
static int load_machine(const struct sc_c3_words *words, struct sc_arena *arena,
			struct sc_transfer *out, struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_fabric *fabric = sc_arena_calloc(arena, 1, sizeof(*fabric));
	struct sc_op_cluster given = {words->cluster, words->device, 1, 1};
	struct sc_cluster *cluster = &request->config.cluster;
	int rc = sc_op_cluster_load(&given, arena, request, err);

	if (rc)
		return rc;
	given.ranks = words->gpus ? words->gpus : cluster->gpus_per_node;
	if (given.ranks > cluster->gpus_per_node)
		given.nodes = (given.ranks + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
	rc = sc_op_cluster_load(&given, arena, request, err);
	if (rc == 0)
		rc = sc_fabric_from_request(request, fabric, err);
	if (rc == 0)
		rc = sc_collective_files_load(request, arena, fabric, err);
	*out = (struct sc_transfer){
		.device = &request->device,
		.fabric = fabric,
		.n_ranks = (int)given.ranks,
		.n_nodes = (int)((given.ranks + fabric->gpus_per_node - 1) / fabric->gpus_per_node),
		.max_ranks_per_node = (int)fmin((double)given.ranks, fabric->gpus_per_node)};
	if (rc == 0 && given.ranks < 2)
		rc = sc_err_set(err, SC_EUSAGE, "--gpus: a collective needs two or more");
	return rc;
}

int sc_c3_words_pairs(const struct sc_c3_words *words, struct sc_arena *arena,
		      struct sc_c3_pairs *out, struct sc_err *err)
{
	struct sc_c3_named named = {.pair.kind = (enum sc_c3_kind)words->kind};
	struct sc_c3_pair *pair = &named.pair;
	int rc = load_machine(words, arena, &pair->transfer, err);

	for (size_t g = 0; rc == 0 && g < words->gemms.n; g++) {
		rc = parse_gemm(words->gemms.at[g], arena, &pair->gemm, err);
		pair->transfer.shape.dtype = pair->gemm.dtype;
		for (size_t c = 0; rc == 0 && c < words->collectives.n; c++) {
			rc = parse_collective(words->collectives.at[c], &pair->transfer.shape, err);
			if (rc == 0 && !sc_c3_kind_fits(pair->kind, pair->transfer.shape.kind))
				rc = sc_err_set(err, SC_EUSAGE,
						"--kind: %s does not go with it: %s",
						sc_collective_names[pair->transfer.shape.kind],
						SC_C3_KIND_FITS);
			named.name = name_of(words, g, c, arena);
			SC_VEC_PUSH(&out->list, named);
		}
	}
	return rc;
}
