/* The last pipelines of a thread, sealed. The nodes of one follow from the order of passes, from
 * who sends to whom and from a few decisions that depend on times: which launches are late, what
 * has work at all. A builder first makes costs alone, with nothing kept of its nodes but their
 * print; a kept graph of the same question with the same print takes these costs. */
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "predict/transformer/build_priv.h"

enum { N_KEPT = 16, N_ALONE = 8, MOST_CLASSES = 64, BLOCK_BYTES = 16 << 10 };
#define MOST_BYTES ((size_t)16 << 20) /* of all kept graphs */

struct kept_graph {
	struct sc_graph graph;
	struct sc_arena arena; /* holds `built` */
	struct sc_built built;
	struct sc_stage_map map; /* the passes' map: sizes alone */
	uint64_t asked, print;   /* of the question, and of the nodes */
	size_t n_bytes;
	uint64_t turn; /* the time of its last use; 0: it is empty */
};
struct sc_graph_store {
	struct kept_graph kept[N_KEPT];
	struct kept_graph *lent; /* its graph is the predictor's, and the other way round */
	uint64_t asked, turn;
	struct alone_graph alone[N_ALONE]; /* the first one: a long one */
	unsigned n_alone;                  /* that were built */
};

struct sc_graph_store *sc_graph_store_create(void)
{
	struct sc_graph_store *store = sc_xcalloc(1, sizeof(*store));

	for (int i = 0; i < N_KEPT; i++) {
		sc_graph_init(&store->kept[i].graph);
		sc_arena_init(&store->kept[i].arena, BLOCK_BYTES);
	}
	return store;
}

static void kept_empty(struct kept_graph *kept)
{
	sc_graph_release(&kept->graph);
	sc_arena_release(&kept->arena);
	sc_arena_init(&kept->arena, BLOCK_BYTES);
	kept->n_bytes = 0;
	kept->turn = 0;
}

void sc_graph_store_destroy(struct sc_graph_store *store)
{
	if (!store)
		return;
	for (int i = 0; i < N_KEPT; i++) {
		sc_graph_release(&store->kept[i].graph);
		sc_arena_release(&store->kept[i].arena);
	}
	for (int i = 0; i < N_ALONE; i++) {
		sc_graph_release(&store->alone[i].graph);
		SC_VEC_RELEASE(&store->alone[i].nodes);
	}
	free(store);
}

static void graph_swap(struct sc_graph *a, struct sc_graph *b)
{
	const struct sc_graph graph = *a;

	*a = *b;
	*b = graph;
}

static struct kept_graph *oldest(struct sc_graph_store *store)
{
	struct kept_graph *out = &store->kept[0];

	for (int i = 1; i < N_KEPT; i++)
		if (store->kept[i].turn < out->turn)
			out = &store->kept[i];
	return out;
}

void sc_graph_store_give_back(struct sc_graph_store *store, struct sc_graph *graph)
{
	size_t n_bytes = 0;

	if (!store->lent)
		return;
	graph_swap(&store->lent->graph, graph);
	store->lent = NULL;
	for (int i = 0; i < N_KEPT; i++)
		n_bytes += store->kept[i].n_bytes;
	while (n_bytes > MOST_BYTES) {
		struct kept_graph *first = NULL;

		for (int i = 0; i < N_KEPT; i++)
			if (store->kept[i].n_bytes && (!first || store->kept[i].turn < first->turn))
				first = &store->kept[i];
		n_bytes -= first->n_bytes;
		kept_empty(first);
	}
}

static bool joins(const struct sc_rank_class *rc)
{
	for (int a = 0; a < SC_N_COMM_AXES; a++)
		if (rc->group[sc_comm_axis_of[a]].n_members > 1)
			return true;
	return false;
}

bool build_is_kept(const struct builder *b)
{
	const struct sc_transformer *tf = b->tf;
	const struct sc_predict_opts *opts = tf->opts;

	if (!opts->brief || opts->detail != SC_DETAIL_COARSE || b->built->shape.pp < 2 ||
	    b->built->shape.file || b->sharding.weights || b->offloads || b->by_op || tf->pairs ||
	    tf->placement.n_classes > MOST_CLASSES)
		return false;
	for (uint32_t c = 0; c < tf->placement.n_classes; c++)
		if (joins(&tf->placement.classes[c]))
			return false;
	return true;
}

/* Returns the print of the question: all that passes and routes follow from, as these are walked
 * before there is a print of nodes, and what a graph has of its classes. pp follows from their
 * stages. Classes of regular layouts repeat themselves: the domains say who is remote. A host that
 * waits adds edges alone. The print of the nodes has the rest: who is in a group, where a class
 * waits for all, and by the ids of costs, whether part of a micro-batch or a launch has its own. */
static uint64_t print_of_question(const struct builder *b)
{
	const struct sc_transformer *tf = b->tf;
	const struct sc_schedule_shape *shape = &b->built->shape;
	const double sizes[] = {shape->kind,     shape->virtual_stages, shape->micro_batches,
				shape->left_out, shape->replicas,       shape->delay};
	uint64_t print = sc_fnv_words(0, sizes, sizeof(sizes) / sizeof(sizes[0]));

	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		const struct sc_rank_class *rc = &tf->placement.classes[c];
		const double numbers[] = {
			rc->stage,
			rc->multiplicity,
			rc->nic_domain,
			rc->ranks_per_domain,
			rc->next_class,
			rc->prev_class,
			rc->next_remote,
			rc->prev_remote,
			tf->classes[c].variant,
			tf->variant[tf->classes[c].variant]->env.host_waits,
		};

		print = sc_fnv_words(print, numbers, sizeof(numbers) / sizeof(numbers[0]));
	}
	return print;
}

/* Says whether a kept graph answers the question. Where times decide the order of passes, `passes`
 * are the builder's; else they have no slots. */
static bool answers(const struct kept_graph *kept, uint64_t asked, const struct sc_passes *passes)
{
	return kept->turn && kept->asked == asked &&
	       (!passes->slots || passes->slots == kept->built.passes.slots ||
		sc_passes_are_equal(&kept->built.passes, passes));
}

const struct kept_graph *build_find_kept(struct builder *b)
{
	struct sc_graph_store *store = b->tf->store;

	if (b->by_op)
		return NULL;
	store->asked = print_of_question(b);
	for (int i = 0; i < N_KEPT; i++)
		if (answers(&store->kept[i], store->asked, &b->built->passes))
			return &store->kept[i];
	return NULL;
}

const struct sc_passes *build_kept_passes(const struct kept_graph *kept)
{
	return &kept->built.passes;
}

static void lend(struct sc_graph_store *store, struct kept_graph *kept, struct sc_graph *graph)
{
	kept->turn = ++store->turn;
	graph_swap(&kept->graph, graph);
	store->lent = kept;
}

bool build_take_kept(struct builder *b, const struct kept_graph *like)
{
	const bool timed = sc_schedule_traits(b->built->shape.kind).is_timed;
	const struct sc_passes any = {.slots = NULL}, *passes = timed ? &like->built.passes : &any;
	struct sc_graph_store *store = b->tf->store;
	struct kept_graph *kept = store->kept;

	while (kept < store->kept + N_KEPT &&
	       !(kept->print == b->graph->print && answers(kept, store->asked, passes)))
		kept++;
	if (kept == store->kept + N_KEPT)
		return false;
	if (!kept->graph.notes)
		kept->graph.notes = sc_xcalloc(1, sizeof(*kept->graph.notes));
	sc_graph_take_costs(&kept->graph, b->graph);
	lend(store, kept, b->graph);
	const struct sc_schedule_shape shape = b->built->shape;

	*b->built = kept->built;
	b->built->shape = shape;
	b->built->passes.map = &b->tf->map;
	return true;
}

void build_keep_begin(struct builder *b)
{
	struct kept_graph *kept = oldest(b->tf->store);

	kept->n_bytes = 0;
	lend(b->tf->store, kept, b->graph);
	kept->turn = 0; /* until it is built */
}

static void *copied(struct kept_graph *kept, const void *from, size_t n_bytes)
{
	kept->n_bytes += n_bytes;
	return memcpy(sc_arena_alloc(&kept->arena, n_bytes), from, n_bytes);
}

void build_keep(struct builder *b)
{
	struct sc_graph_store *store = b->tf->store;
	struct kept_graph *kept = store->lent;
	const struct sc_arena_mark start = {0};
	const struct sc_built *from = b->built;
	struct sc_built *to = &kept->built;
	const struct sc_graph *g = b->graph;
	const size_t n = b->tf->placement.n_classes, n_slots = n * from->passes.stride;

	sc_arena_rewind(&kept->arena, start);
	*to = *from;
	kept->map = b->tf->map;
	to->passes.map = &kept->map;
	to->passes.n = copied(kept, from->passes.n, kept->map.pp * sizeof(*to->passes.n));
	to->passes.slots = copied(kept, from->passes.slots,
				  kept->map.pp * from->passes.stride * sizeof(*to->passes.slots));
	to->slot_node = copied(kept, from->slot_node, n_slots * sizeof(uint32_t));
	for (int k = 0; k < SC_N_BESIDE; k++)
		to->slot_beside[k] = copied(kept, from->slot_beside[k], n_slots * sizeof(uint32_t));
	to->compute = copied(kept, from->compute, n * sizeof(uint32_t));
	to->last = copied(kept, from->last, n * sizeof(uint32_t));
	to->beside = NULL;
	kept->asked = store->asked;
	kept->print = g->print;
	/* Its notes are a few words a node and one an edge, once they are made. */
	kept->n_bytes += g->cap_nodes * (sizeof(struct sc_node) + 11 * sizeof(uint32_t)) +
			 g->cap_edges * (sizeof(uint64_t) + 3 * sizeof(uint32_t)) +
			 g->groups.cap * (sizeof(struct sc_group) + 2 * sizeof(struct sc_member) +
					  5 * sizeof(uint32_t)) +
			 g->costs.cap * sizeof(struct sc_cost);
	kept->turn = ++store->turn;
}

struct alone_graph *build_find_alone(struct sc_graph_store *store, uint64_t print, bool is_long)
{
	struct alone_graph *out = store->alone;

	while (out < store->alone + N_ALONE && !(out->print == print && out->nodes.n))
		out++;
	if (out < store->alone + N_ALONE)
		return out;
	out = &store->alone[is_long ? 0 : 1 + store->n_alone++ % (N_ALONE - 1)];
	out->print = print;
	out->nodes.n = 0;
	return out;
}
