/* Sources: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py and
 * megatron/core/model_parallel_config.py of Megatron-LM (core 0.8 to 0.14); megatron_gpt_config.yaml of NeMo 1;
 * the ConfigContainer of Megatron-Bridge. */
#include "core/foreign/foreign.h"

#include <string.h>

#include "base/num.h"

static const struct sc_foreign_leaf *first_of(const struct sc_foreign *file,
					      const char *const *names)
{
	const struct sc_foreign_leaf *leaf = NULL;

	for (; !leaf && *names; names++)
		leaf = sc_foreign_get(file, *names);
	return leaf && !sc_yaml_is_null(leaf->node) ? leaf : NULL;
}

static bool is_given(const struct sc_foreign *file, const char *path)
{
	return sc_foreign_line_of(file->lines, path) != NULL;
}

/* arguments.py: two thirds of 4 hidden, in steps of 64 */
static int take_width(struct sc_foreign *file, struct sc_err *err)
{
	int64_t hidden = sc_foreign_ours(file, "model.hidden", 0);

	if (hidden < 1 || hidden >= 1 << 24 || !sc_foreign_holds(file, "swiglu") ||
	    is_given(file, "model.ffn_hidden"))
		return 0;
	return sc_foreign_put_count(file, sc_foreign_get(file, "swiglu"), "model.ffn_hidden",
				    hidden * 4 * 2 / 3 / 64 * 64, err);
}

/* Rows of the embedding are padded so that they split over tp ranks (tokenizer.py, _vocab_size_with_padding). */
static int take_vocab(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const said[] = {"tokenizer-type", "tokenizer-model", SC_SHELL_PROGRAM};
	const struct sc_foreign_leaf *at = sc_foreign_get(file, "vocab-size");
	const struct sc_foreign_table *table = file->more ? file->more : file->table;
	const struct sc_yaml *known = sc_yaml_get(table->root, "vocabularies");
	int64_t step = sc_foreign_count(file, "make-vocab-size-divisible-by", 128);
	int64_t tp = sc_foreign_ours(file, "parallel.tp", 1);
	int64_t rows = sc_foreign_count(file, "vocab-size", 0);

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]) && !rows; i++) {
		at = sc_foreign_get(file, said[i]);
		for (const struct sc_yaml *one = known ? known->child : NULL; one && !rows;
		     one = one->next)
			if (at && at->node->kind == SC_YAML_SCALAR &&
			    sc_foreign_is_like(at->node->text, one->key))
				(void)sc_parse_int(one->text, &rows);
	}
	if (!at || !rows || is_given(file, "model.vocab"))
		return 0;
	if (rows > 1 << 26 || step > 1 << 16 || tp > 1 << 12)
		return sc_foreign_fail(at, err, "the padded vocabulary is too large");
	rows = (rows + step * tp - 1) / (step * tp) * (step * tp);
	return sc_foreign_put_count(file, at, "model.vocab", rows, err);
}

/* Digits, which are read past; -1: none. */
static int64_t digits(const char **text)
{
	size_t n = strspn(*text, "0123456789");
	char number[12] = "";
	int64_t value = -1;

	if (n < sizeof(number)) {
		memcpy(number, *text, n);
		(void)sc_parse_int(number, &value);
	}
	*text += n;
	return value;
}

/* "([0]*3+[1]*58)", "([1]*61)": how many have none; -1: neither. */
static int64_t dense_of(const char *text)
{
	int64_t n = 0;

	text += strspn(text, "( ");
	if (strncmp(text, "[0]*", 4) == 0) {
		text += 4;
		n = digits(&text);
		if (n < 1 || *text++ != '+')
			return -1;
	}
	if (strncmp(text, "[1]*", 4) != 0)
		return -1;
	text += 4;
	return digits(&text) > 0 && !text[strspn(text, ") ")] ? n : -1;
}

/* The first of each so many layers has experts there, the last here: as many, if those divide the layers. */
static int64_t experts_every(const struct sc_foreign *file, const char *text)
{
	int64_t every = digits(&text), layers = sc_foreign_count(file, "num-layers", 0);

	return *text == '\0' && every > 1 && layers % every == 0 ? every : 0;
}

/* "([0]*3+[1]*58)", or the same as a list: first layers without experts, then all with; "2": one in two has them. */
static int take_dense_layers(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, "moe-layer-freq");
	const char *text = leaf && leaf->node->kind == SC_YAML_SCALAR ? leaf->node->text : "";
	int64_t n = 0, n_all = 0, every;
	bool sparse = false, odd = false;

	if (!leaf || strcmp(text, "1") == 0)
		return 0;
	every = experts_every(file, text);
	if (every)
		return sc_foreign_put_count(file, leaf, "model.experts_every", every, err);
	for (const struct sc_yaml *one = leaf->node->child; one; one = one->next, n_all++) {
		bool dense = one->kind == SC_YAML_SCALAR && strcmp(one->text, "0") == 0;

		odd = odd || (dense && sparse);
		sparse = sparse || !dense;
		n += dense;
	}
	if (*text) {
		n = dense_of(text);
		odd = n < 0;
	}
	if (odd || (n_all && n == n_all))
		return sc_foreign_fail(leaf, err,
				       "only the first layers may be without experts, as in "
				       "\"([0]*3+[1]*58)\", or all but one in so many, a number "
				       "that divides the layers");
	return n ? sc_foreign_put_count(file, leaf, "model.dense_layers", n, err) : 0;
}

static int take_experts(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *shared =
		sc_foreign_get(file, "moe-shared-expert-intermediate-size");
	int64_t each = sc_foreign_ours(file, "model.expert_ffn_hidden",
				       sc_foreign_ours(file, "model.ffn_hidden", 0));
	int64_t all = sc_foreign_count(file, "moe-shared-expert-intermediate-size", 0);
	int rc = 0;

	if (!is_given(file, "model.experts"))
		return 0;
	if (all > 0 && (each < 1 || all % each))
		return sc_foreign_fail(shared, err, "must be a multiple of the width of an expert");
	if (all > 0)
		rc = sc_foreign_put_count(file, shared, "model.shared_experts", all / each, err);
	return rc ? rc : take_dense_layers(file, err);
}

/* "128,0", "(128, 0)", [128, 0]: tokens before a token, and behind it. */
static int take_window(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, "window-size");
	const struct sc_foreign_leaf *skip = sc_foreign_get(file, "window-attn-skip-freq");
	const struct sc_yaml *first =
		leaf ? leaf->node->child ? leaf->node->child : leaf->node : NULL;
	const char *text = first && first->kind == SC_YAML_SCALAR ? first->text : "";
	int64_t n;
	int rc;

	if (!leaf || sc_yaml_is_null(leaf->node) || strncmp(text, "-1", 2) == 0)
		return 0;
	text += strspn(text, "( ");
	n = digits(&text);
	if (n < 1 || !(*text == '\0' || strchr(", )", *text)))
		return sc_foreign_fail(leaf, err, "expected two numbers, as in 128,0");
	rc = sc_foreign_put_count(file, leaf, "model.sliding_window", n, err);
	if (rc == 0 && skip && !sc_yaml_is_null(skip->node))
		rc = sc_foreign_put(file, skip, "model.full_attention_every", NULL, err);
	return rc;
}

static int take_gpus(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const per_node[] = {"nproc-per-node", "devices",         "gpus-per-node",
					       "num-gpus",       "ntasks-per-node", NULL};
	static const char *const nodes[] = {"nnodes", "num-nodes", "nodes", NULL};
	const struct sc_foreign_leaf *each = first_of(file, per_node), *of = first_of(file, nodes);
	int64_t n_each = each ? sc_foreign_count(file, each->path, 0) : 0;
	int64_t n_nodes = of ? sc_foreign_count(file, of->path, 0) : 1;
	int rc;

	if (file->lines->gpus || n_each < 1 || n_nodes < 1 || n_each > 1024 || n_nodes > 1 << 20)
		return 0;
	rc = sc_foreign_put_count(file, of ? of : each, "gpus", n_each * n_nodes, err);
	if (rc == 0 && n_nodes > 1)
		rc = sc_foreign_put_count(file, each, "cluster.gpus_per_node", n_each, err);
	return rc;
}

static int take_stages(struct sc_foreign *file, struct sc_err *err)
{
	const char *theirs = "num-layers-per-virtual-pipeline-stage";
	const struct sc_foreign_leaf *each = sc_foreign_get(file, theirs);
	int64_t n = sc_foreign_count(file, theirs, 0);
	int64_t layers = sc_foreign_ours(file, "model.layers", 0);
	int64_t pp = sc_foreign_ours(file, "parallel.pp", 1);

	if (n && (pp > layers || layers % pp || layers / pp % n))
		return sc_foreign_fail(each, err, "does not divide the layers of a stage");
	if (n)
		return sc_foreign_put_count(file, each, "parallel.virtual_stages", layers / pp / n,
					    err);
	if (pp == 1 || is_given(file, "parallel.virtual_stages") ||
	    is_given(file, "parallel.layout"))
		return 0;
	return sc_foreign_put_absent(file, theirs, "parallel.virtual_stages", "1", err);
}

/* Without --global-batch-size each replica runs one micro-batch. */
static int take_batch(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, "micro-batch-size");
	int64_t gpus = sc_foreign_gpus(file), ranks = sc_foreign_replica(file);
	int64_t each = sc_foreign_ours(file, "training.micro_batch", 0);

	if (!leaf || is_given(file, "training.global_batch") || !gpus || each > 1 << 26)
		return 0;
	return sc_foreign_put_count(file, leaf, "training.global_batch", gpus / ranks * each, err);
}

static int finish(struct sc_foreign *file, struct sc_err *err)
{
	static int (*const steps[])(struct sc_foreign *, struct sc_err *) = {
		take_width, take_vocab,  take_experts, take_window,
		take_gpus,  take_stages, take_batch,
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == 0; i++)
		rc = steps[i](file, err);
	return rc;
}

const struct sc_foreign_format sc_format_megatron = {.name = "options of Megatron-LM",
						     .mark = "--",
						     .table = "megatron",
						     .strict = true,
						     .order = 1,
						     .finish = finish};

static const char *const SECTIONS[] = {
	"model.",           "train.",   "ddp.",          "optimizer.", "trainer.",
	"mixed_precision.", "dataset.", "comm_overlap.", "dist.",      NULL};
const struct sc_foreign_format sc_format_nemo = {.name = "NeMo or Megatron-Bridge",
						 .table = "nemo",
						 .more = "megatron",
						 .sections = SECTIONS,
						 .strict = false,
						 .order = 1,
						 .finish = finish};
