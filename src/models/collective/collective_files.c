/* A file fits a collective of its kind between as many ranks, which fill their nodes alike, of a
 * size that it is registered for and at which it ends. Others take the library's choice, and the
 * reason is kept for a warning. */
#include "models/collective/collective_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/collective/collective_priv.h"
#include "models/msccl/msccl.h"

/* This many sizes are remembered: an iteration has few. */
enum { N_WALKED = 256 };

static const struct {
	enum sc_collective kind;
	enum sc_msccl_coll coll;
	const char *key;
	size_t offset;
} KEYS[] = {
#define KEY(name, kind, coll)                                                                     \
	{                                                                                         \
		kind, coll, "cluster.algorithms." #name, offsetof(struct sc_algorithm_refs, name) \
	}
	KEY(all_reduce, SC_ALL_REDUCE, SC_MSCCL_ALL_REDUCE),
	KEY(all_gather, SC_ALL_GATHER, SC_MSCCL_ALL_GATHER),
	KEY(reduce_scatter, SC_REDUCE_SCATTER, SC_MSCCL_REDUCE_SCATTER),
	KEY(all_to_all, SC_ALL_TO_ALL, SC_MSCCL_ALL_TO_ALL),
#undef KEY
};
enum { N_KEYS = sizeof(KEYS) / sizeof(KEYS[0]) };

struct walked {
	double bytes, us; /* us: HUGE_VAL where it never ends */
	int per_node;
};
struct file {
	bool by_name;         /* of the library: cluster.algorithms names no file */
	struct sc_msccl algo; /* without GPUs: none is named */
	/* The traffic of a loop, in chunks, for ranks in nodes of per_node. */
	int per_node, blocks; /* blocks: thread blocks of a GPU */
	double link_chunks, net_chunks, hbm_chunks;
	struct walked walked[N_WALKED];
	size_t n_walked;
	size_t n_asked, n_run;
	char why[112]; /* why it did not run the first time */
};
struct sc_collective_files {
	struct file files[N_KEYS];
};

/* ---- loading ---- */

static int load(const struct sc_request *request, size_t key, const char *ref,
		struct sc_arena *arena, struct sc_msccl *out, struct sc_err *err)
{
	const struct sc_key_text given = {KEYS[key].key, ref};
	const struct sc_origin *at = sc_config_origin_near(&request->config, KEYS[key].key);
	const char *file = at ? at->file : "";
	unsigned line = at ? at->line : 0, column = at ? at->column : 0;
	struct sc_err own = {.code = SC_OK};
	const char *path;
	int rc = sc_config_file_of(&request->config, given, arena, &path, &own);

	if (rc)
		return sc_err_at(err, own.code, file, line, column, "%s", own.text);
	rc = sc_msccl_load(path, arena, out, err);
	if (rc)
		return rc;
	if (out->coll != KEYS[key].coll)
		return sc_err_at(err, SC_ECONFLICT, file, line, column,
				 "%s: %s is an algorithm of %s; name one of %s", KEYS[key].key, ref,
				 out->coll_name, sc_msccl_coll_names[KEYS[key].coll]);
	return sc_msccl_check(out, err);
}

static int check_fabric(const struct sc_request *request, const struct sc_fabric *fabric,
			const struct file *named, struct sc_err *err)
{
	const struct sc_msccl *algo = &named->algo;

	if (sc_request_n_kinds(request) > 1)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "cluster.algorithms: needs GPUs of one kind");
	if (fabric->torus.dims.n)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "cluster.algorithms: needs nodes, not cluster.torus");
	if (!named->by_name &&
	    (!fabric->walk || !(fabric->walk->protos[algo->proto].block_gbps > 0)))
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "cluster.algorithms: the fabric profile has no rates for %s "
				  "algorithms on these links",
				  sc_msccl_proto_names[algo->proto]);
	return 0;
}

int sc_collective_files_load(const struct sc_request *request, struct sc_arena *arena,
			     struct sc_fabric *fabric, struct sc_err *err)
{
	const char *refs = (const char *)&request->config.cluster.algorithms;
	struct sc_collective_files *files = NULL;
	int asked[SC_N_COLLECTIVES] = {0}, rc = 0;
	enum sc_algo algo;

	for (size_t i = 0; i < N_KEYS && rc == 0; i++) {
		const char *ref = *(const char *const *)(const void *)(refs + KEYS[i].offset);

		if (!ref)
			continue;
		if (!files)
			files = sc_arena_calloc(arena, 1, sizeof(*files));
		if (sc_algo_by_name(ref, &algo)) {
			files->files[i].by_name = true;
			asked[KEYS[i].kind] = 1 + (int)algo;
		} else {
			rc = load(request, i, ref, arena, &files->files[i].algo, err);
		}
		if (rc == 0)
			rc = check_fabric(request, fabric, &files->files[i], err);
	}
	if (rc)
		return rc;
	fabric->files = files;
	memcpy(fabric->asked, asked, sizeof(asked));
	return 0;
}

/* ---- traffic ---- */

/* The memory traffic, in chunks: a chunk that is sent or copied is read and written once; a sum
 * reads twice. A chunk that is only received was written by its sender. */
static double memory_chunks(const struct sc_msccl_step *step)
{
	switch ((enum sc_msccl_op)step->op) {
	case SC_MSCCL_NOP:
	case SC_MSCCL_RECV:
		return 0;
	case SC_MSCCL_SEND:
	case SC_MSCCL_RECV_COPY_SEND:
	case SC_MSCCL_COPY:
		return 2.0 * step->count;
	default:
		return 3.0 * step->count;
	}
}

/* Counts the traffic through the busiest GPU's port and memory, and out of the busiest node. */
static void count_traffic(struct file *file, int per_node)
{
	const struct sc_msccl *a = &file->algo;
	double net = 0;

	file->per_node = per_node;
	file->link_chunks = file->net_chunks = file->hbm_chunks = file->blocks = 0;
	for (int g = 0; g < a->n_gpus; g++) {
		const struct sc_msccl_gpu *gpu = &a->gpus[g];
		double link = 0, hbm = 0;

		if (g % per_node == 0)
			net = 0;
		for (size_t t = gpu->first; t < gpu->first + gpu->n; t++) {
			const struct sc_msccl_tb *tb = &a->tbs[t];

			for (size_t s = tb->first; s < tb->first + tb->n; s++) {
				bool sends = sc_msccl_sends((enum sc_msccl_op)a->steps[s].op);
				bool remote = sends && tb->send / per_node != g / per_node;

				*(remote ? &net : &link) += sends ? a->steps[s].count : 0;
				hbm += memory_chunks(&a->steps[s]);
			}
		}
		file->blocks = gpu->n > (size_t)file->blocks ? (int)gpu->n : file->blocks;
		file->link_chunks = fmax(file->link_chunks, link);
		file->net_chunks = fmax(file->net_chunks, net);
		file->hbm_chunks = fmax(file->hbm_chunks, hbm);
	}
}

/* ---- times ---- */

static double walk_us(struct file *file, const struct sc_fabric *fabric, double bytes, int per_node)
{
	const struct sc_msccl_place place = {fabric, per_node};
	struct sc_msccl_time time;

	for (size_t i = 0; i < file->n_walked; i++)
		if (!(file->walked[i].bytes < bytes) && !(file->walked[i].bytes > bytes) &&
		    file->walked[i].per_node == per_node)
			return file->walked[i].us;
	/* Its connections and rates were proved when the file was loaded. */
	if (sc_msccl_walk(&file->algo, &place, bytes, &time, NULL))
		time.total_us = HUGE_VAL;
	if (file->n_walked == N_WALKED)
		file->n_walked = 0;
	file->walked[file->n_walked++] = (struct walked){bytes, time.total_us, per_node};
	return time.total_us;
}

/* The file fits a collective; false, and why, where it does not. */
static bool fits(const struct file *file, const struct sc_fabric *fabric, double bytes,
		 const struct sc_span *span, char *why, size_t n)
{
	const struct sc_msccl *a = &file->algo;
	bool small = bytes<a->min_bytes, large = a->max_bytes> 0 && bytes > a->max_bytes;

	if (a->n_gpus != span->n_ranks)
		snprintf(why, n, "it is of %d GPUs, and some have %d ranks", a->n_gpus,
			 span->n_ranks);
	else if (span->max_ranks_per_node * span->n_nodes != span->n_ranks)
		snprintf(why, n, "some ranks do not fill their nodes alike");
	else if (small || large)
		snprintf(why, n, "some are of %.3g bytes, %s than its %s %.3g", bytes,
			 small ? "less" : "more", small ? "minBytes" : "maxBytes",
			 small ? a->min_bytes : a->max_bytes);
	else if (sc_span_is_oversubscribed(fabric, span))
		snprintf(why, n, "a walk has no oversubscribed uplinks");
	else
		return true;
	return false;
}

bool sc_collective_file_run(const struct sc_fabric *fabric, const struct sc_collective_shape *shape,
			    const struct sc_span *span, struct sc_file_run *out)
{
	struct file *file = NULL;
	int per_node = span->max_ranks_per_node;
	char why[sizeof(file->why)];
	double chunk, us = HUGE_VAL;

	for (size_t i = 0; i < N_KEYS; i++)
		if (KEYS[i].kind == shape->kind && fabric->files->files[i].algo.n_gpus > 0)
			file = &fabric->files->files[i];
	if (!file)
		return false;
	file->n_asked++;
	if (fits(file, fabric, shape->bytes, span, why, sizeof(why))) {
		us = walk_us(file, fabric, shape->bytes, per_node);
		snprintf(why, sizeof(why), "at %.3g bytes it never ends, its buffers are full",
			 shape->bytes);
	}
	if (isinf(us)) {
		if (!*file->why)
			snprintf(file->why, sizeof(file->why), "%s", why);
		return false;
	}
	file->n_run++;
	if (file->per_node != per_node)
		count_traffic(file, per_node);
	chunk = shape->bytes / file->algo.n_chunks;
	*out = (struct sc_file_run){
		.total_us = us,
		.latency_us = fmin(us, walk_us(file, fabric, file->algo.n_chunks, per_node)),
		.link_bytes = file->link_chunks * chunk,
		.net_bytes = file->net_chunks * chunk,
		.hbm_bytes = file->hbm_chunks * chunk,
		.blocks = file->blocks,
		.proto = file->algo.proto,
	};
	return true;
}

void sc_collective_files_note(struct sc_collective_files *files, enum sc_collective kind,
			      const char *why)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		struct file *file = &files->files[i];

		if (KEYS[i].kind != kind)
			continue;
		file->n_asked++;
		file->n_run += !why;
		if (why && !*file->why)
			snprintf(file->why, sizeof(file->why), "%s", why);
	}
}

void sc_collective_files_warn(const struct sc_fabric *fabric, struct sc_warnings *warnings)
{
	for (size_t i = 0; fabric->files && i < N_KEYS; i++) {
		const struct file *file = &fabric->files->files[i];

		if (file->algo.n_gpus == 0 && !file->by_name)
			continue;
		if (file->n_asked == 0)
			sc_warn(warnings, "%s has no effect: there is none", KEYS[i].key);
		else if (*file->why)
			sc_warn(warnings, "%s: %s; %s take the library's choice", KEYS[i].key,
				file->why, file->n_run ? "those" : "all");
	}
}
