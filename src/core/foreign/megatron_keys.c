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

static bool has_text(const struct sc_foreign_leaf *leaf, const char *part)
{
	return leaf && leaf->node->kind == SC_YAML_SCALAR && strstr(leaf->node->text, part);
}

static bool is_given(const struct sc_foreign *file, const char *path)
{
	return sc_foreign_line_of(file->lines, path) != NULL;
}

/* A flag's value, or what holds without it, which is said in either case. */
static int put_flag(struct sc_foreign *file, const char *theirs, const char *path,
		    const char *const texts[2], struct sc_err *err)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, theirs);

	if (leaf)
		return sc_foreign_put(file, leaf, path, texts[sc_foreign_is_on(file, theirs)], err);
	return is_given(file, path) ? 0 : sc_foreign_put_absent(file, theirs, path, texts[0], err);
}

static bool is_command(const struct sc_foreign *file)
{
	return file->format == &sc_format_megatron;
}

static bool is_gated(const struct sc_foreign *file)
{
	const struct sc_foreign_leaf *act = sc_foreign_get(file, "activation");

	return sc_foreign_is_on(file, "swiglu") || sc_foreign_is_on(file, "quick-geglu") ||
	       sc_foreign_is_on(file, "gated-linear-unit") || has_text(act, "glu");
}

static int take_family(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const said[] = {
		"num-experts", "num-moe-experts", "swiglu",     "gated-linear-unit",
		"activation",  SC_SHELL_PROGRAM,  "num-layers", NULL};
	const struct sc_foreign_leaf *at = first_of(file, said);
	const struct sc_foreign_leaf *program = sc_foreign_get(file, SC_SHELL_PROGRAM);
	bool latent = sc_foreign_is_on(file, "multi-latent-attention");
	bool rope = has_text(sc_foreign_get(file, "position-embedding-type"), "rope");
	const char *family = is_given(file, "model.experts") ? latent ? "moe-mla" : "moe"
			     : has_text(program, "bert")     ? "bert"
			     : is_gated(file) || latent      ? "llama"
			     : rope                          ? "mpt"
							     : "gpt";

	if ((is_given(file, "model.experts") || latent) && !is_gated(file) &&
	    (is_command(file) || sc_foreign_get(file, "activation") ||
	     sc_foreign_get(file, "gated-linear-unit")))
		return sc_foreign_fail(
			latent ? sc_foreign_get(file, "multi-latent-attention") : at, err,
			"experts and layers with latent attention are understood with "
			"a gated MLP only (--swiglu)");
	if (has_text(program, "t5") || has_text(program, "vision") || has_text(program, "mamba"))
		return sc_foreign_fail(program, err, "only decoders (GPT) and BERT are understood");
	return at ? sc_foreign_put(file, at, "model.family", family, err) : 0;
}

static int take_width(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *groups = sc_foreign_get(file, "num-query-groups");
	bool asks = sc_foreign_is_on(file, "group-query-attention") || !is_command(file);
	int64_t hidden = sc_foreign_ours(file, "model.hidden", 0);
	int rc = 0;

	if (groups && asks && !sc_yaml_is_null(groups->node))
		rc = sc_foreign_put(file, groups, "model.kv_heads", NULL, err);
	else if (!groups && is_command(file) && asks)
		rc = sc_foreign_put_absent(file, "num-query-groups", "model.kv_heads", "1", err);
	/* arguments.py: two thirds of 4 hidden, in steps of 64 */
	if (rc == 0 && hidden > 0 && hidden < 1 << 24 && sc_foreign_is_on(file, "swiglu") &&
	    !is_given(file, "model.ffn_hidden"))
		rc = sc_foreign_put_count(file, sc_foreign_get(file, "swiglu"), "model.ffn_hidden",
					  hidden * 4 * 2 / 3 / 64 * 64, err);
	return rc;
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

static int take_ends(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const no_yes[] = {"false", "true"}, *const yes_no[] = {"true", "false"};
	const bool bridge = sc_foreign_get(file, "share-embeddings-and-output-weights") != NULL;
	const char *bias = sc_foreign_get(file, "add-bias-linear") ? "add-bias-linear"
			   : sc_foreign_get(file, "bias")          ? "bias"
								   : NULL;
	int rc = put_flag(file,
			  bridge ? "share-embeddings-and-output-weights"
				 : "untie-embeddings-and-output-weights",
			  "model.tied_embeddings", bridge ? no_yes : yes_no, err);

	if (rc == 0)
		rc = put_flag(file, bias ? bias : "disable-bias-linear", "model.biases",
			      bias ? no_yes : yes_no, err);
	return rc;
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

/* Without a scope whole layers are captured. */
static int take_graphs(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *impl = sc_foreign_get(file, "cuda-graph-impl");
	const struct sc_foreign_leaf *scope = sc_foreign_get(file, "cuda-graph-scope");
	const char *path = "training.cuda_graphs";

	if (!impl || sc_yaml_is_null(impl->node))
		return 0;
	if (sc_foreign_is(file, impl->path, "none"))
		return sc_foreign_put(file, impl, path, "false", err);
	if (!scope || sc_yaml_is_null(scope->node) || sc_foreign_is(file, scope->path, "full") ||
	    (scope->node->kind == SC_YAML_SEQ && !scope->node->child))
		return sc_foreign_put(file, impl, path, "true", err);
	return sc_foreign_put(file, scope, path, NULL, err);
}

/* One dispatcher in front of several libraries. */
static int take_flex(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *type = sc_foreign_get(file, "moe-token-dispatcher-type");
	const struct sc_foreign_leaf *backend = sc_foreign_get(file, "moe-flex-dispatcher-backend");
	const char *path = "training.moe_dispatcher";

	if (!has_text(type, "flex"))
		return 0;
	if (!backend || sc_yaml_is_null(backend->node))
		return sc_foreign_put(file, type, path, "deepep", err);
	return sc_foreign_put(file, backend, path, NULL, err);
}

/* The defaults of transformer_config.py. */
static int take_router(struct sc_foreign *file, struct sc_err *err)
{
	int rc = sc_foreign_put_absent(file, "moe-router-topk", "model.top_k", "2", err);

	return rc ? rc
		  : sc_foreign_put_absent(file, "moe-token-dispatcher-type",
					  "training.moe_dispatcher", "all_gather", err);
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
	if (shared && all > 0 && (each < 1 || all % each))
		return sc_foreign_fail(shared, err, "must be a multiple of the width of an expert");
	if (all > 0)
		rc = sc_foreign_put_count(file, shared, "model.shared_experts", all / each, err);
	if (rc == 0 && sc_foreign_is_on(file, "moe-pad-expert-input-to-capacity"))
		rc = sc_foreign_put(file, sc_foreign_get(file, "moe-pad-expert-input-to-capacity"),
				    "training.routing", "dropped", err);
	if (rc == 0)
		rc = take_flex(file, err);
	if (rc == 0 && !sc_foreign_get(file, "_target_"))
		rc = take_router(file, err);
	return rc ? rc : take_dense_layers(file, err);
}

static int take_latent(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const keys[][2] = {{"q-lora-rank", "model.q_lora_rank"},
					      {"kv-lora-rank", "model.kv_lora_rank"},
					      {"qk-head-dim", "model.head_dim"},
					      {"qk-pos-emb-head-dim", "model.rope_head_dim"},
					      {"v-head-dim", "model.v_head_dim"}};
	int rc = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && rc == 0; i++) {
		const struct sc_foreign_leaf *leaf = sc_foreign_get(file, keys[i][0]);

		if (leaf && sc_foreign_is_on(file, "multi-latent-attention") &&
		    !sc_yaml_is_null(leaf->node))
			rc = sc_foreign_put(file, leaf, keys[i][1], NULL, err);
	}
	return rc;
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

static int take_split(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const no_yes[] = {"false", "true"}, *const zero[] = {"none", "zero1"};
	const struct sc_foreign_leaf *each =
		sc_foreign_get(file, "num-layers-per-virtual-pipeline-stage");
	int64_t n = sc_foreign_count(file, "num-layers-per-virtual-pipeline-stage", 0);
	int64_t layers = sc_foreign_ours(file, "model.layers", 0);
	int64_t pp = sc_foreign_ours(file, "parallel.pp", 1);
	const struct sc_foreign_leaf *optimizer = sc_foreign_get(file, "model.optim.name");
	bool shell = is_command(file);
	int rc = 0;

	if (n && (pp > layers || layers % pp || layers / pp % n))
		return sc_foreign_fail(each, err, "does not divide the layers of a stage");
	if (n)
		rc = sc_foreign_put_count(file, each, "parallel.virtual_stages", layers / pp / n,
					  err);
	else if (pp > 1 && !is_given(file, "parallel.virtual_stages") &&
		 !is_given(file, "parallel.layout"))
		rc = sc_foreign_put_absent(file, "num-layers-per-virtual-pipeline-stage",
					   "parallel.virtual_stages", "1", err);
	if (rc == 0 && sc_foreign_is_on(file, "use-torch-fsdp2"))
		rc = sc_foreign_put(file, sc_foreign_get(file, "use-torch-fsdp2"),
				    "parallel.sharding", "fsdp", err);
	/* Recipes for NeMo leave it to the optimizer's name. */
	if (rc == 0 && optimizer && !is_given(file, "parallel.sharding"))
		rc = sc_foreign_put(file, optimizer, "parallel.sharding",
				    zero[has_text(optimizer, "distributed")], err);
	else if (rc == 0 && (shell || sc_foreign_get(file, "use-distributed-optimizer")))
		rc = put_flag(file, "use-distributed-optimizer", "parallel.sharding", zero, err);
	if (rc == 0)
		rc = put_flag(file, "sequence-parallel", "parallel.sequence_parallel", no_yes, err);
	if (rc == 0 && shell)
		rc = put_flag(file, "tp-comm-overlap", "parallel.tp_overlap", no_yes, err);
	return rc;
}

/* What turns it on. Where `fp8` is there, the others are its variants. */
static const struct sc_foreign_leaf *fp8_of(const struct sc_foreign *file)
{
	static const char *const names[] = {"fp8", "fp8-format", "fp8-hybrid", "fp8-e4m3"};
	const struct sc_foreign_leaf *leaf = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		leaf = sc_foreign_get(file, names[i]);
		if (leaf && !sc_yaml_is_null(leaf->node) && !has_text(leaf, "false") &&
		    !has_text(leaf, "False"))
			return leaf;
		if (leaf && i == 0)
			return NULL;
	}
	return NULL;
}

static int take_precision(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const names[] = {"mixed-precision", "precision", NULL};
	const struct sc_foreign_leaf *fp8 = fp8_of(file), *named = first_of(file, names);
	const struct sc_foreign_leaf *fp4 = sc_foreign_get(file, "fp4-format");
	const char *path = "training.precision";

	if (fp4 && !sc_yaml_is_null(fp4->node))
		return sc_foreign_put(file, fp4, path, "nvfp4", err);
	if (fp8)
		return sc_foreign_put(file, fp8, path,
				      sc_foreign_is(file, "fp8-recipe", "mxfp8") ? "mxfp8" : "fp8",
				      err);
	if (sc_foreign_is_on(file, "bf16"))
		return sc_foreign_put(file, sc_foreign_get(file, "bf16"), path, "bf16", err);
	if (sc_foreign_is_on(file, "fp16"))
		return sc_foreign_put(file, sc_foreign_get(file, "fp16"), path, "fp16", err);
	if (!named)
		return sc_foreign_put_absent(file, "bf16", path, "fp32", err);
	/* Megatron-Bridge's recipes: bf16_with_fp8_current_scaling_mixed; NeMo's: bf16-mixed, 16, 32. */
	static const struct {
		const char *part, *precision, *recipe;
	} NAMES[] = {
		{"mxfp8", "mxfp8", NULL},
		{"nvfp4", "nvfp4", NULL},
		{"fp8_current", "fp8", "current"},
		{"fp8_subchannel", "fp8", "blockwise"},
		{"fp8_delayed", "fp8", "delayed"},
		{"fp8", "fp8", NULL},
		{"bf16", "bf16", NULL},
		{"16", "fp16", NULL},
		{"32", "fp32", NULL},
	};

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		int rc;

		if (!has_text(named, NAMES[i].part))
			continue;
		rc = sc_foreign_put(file, named, "training.precision", NAMES[i].precision, err);
		return rc || !NAMES[i].recipe ? rc
					      : sc_foreign_put(file, named, "training.fp8_recipe",
							       NAMES[i].recipe, err);
	}
	return sc_foreign_fail(named, err, "its value is not understood");
}

static int take_recompute(struct sc_foreign *file, struct sc_err *err)
{
	static const char *const how[] = {"recompute-granularity",
					  "activations-checkpoint-granularity", NULL};
	static const char *const count[] = {"recompute-num-layers",
					    "activations-checkpoint-num-layers", NULL};
	static const char *const method[] = {"recompute-method", "activations-checkpoint-method",
					     NULL};
	const struct sc_foreign_leaf *given = first_of(file, how), *n = first_of(file, count);
	const struct sc_foreign_leaf *modules = sc_foreign_get(file, "recompute-modules");
	const char *path = "training.recompute";
	int rc = 0;

	if (given && has_text(given, "selective") && modules && !sc_yaml_is_null(modules->node))
		return sc_foreign_put(file, modules, path, NULL, err);
	if (given)
		rc = sc_foreign_put(file, given, path, NULL, err);
	else if (sc_foreign_is_on(file, "recompute-activations"))
		rc = sc_foreign_put(file, sc_foreign_get(file, "recompute-activations"), path,
				    "selective", err);
	else if (sc_foreign_is_on(file, "checkpoint-activations"))
		rc = sc_foreign_put(file, sc_foreign_get(file, "checkpoint-activations"), path,
				    "full", err);
	else
		return sc_foreign_put_absent(file, "recompute-granularity", path, "none", err);
	/* With `uniform` it is how far apart what is kept lies, and all layers run again. */
	if (rc == 0 && n && has_text(given, "full") && has_text(first_of(file, method), "block"))
		rc = sc_foreign_put(file, n, "training.recompute_layers", NULL, err);
	return rc;
}

static int take_kernels(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *flash = sc_foreign_get(file, "use-flash-attn");
	bool deepspeed = sc_foreign_is_on(file, "deepspeed");
	const char *software = sc_foreign_get(file, "_target_") ? "megatron-bridge"
			       : !is_command(file)              ? "nemo"
			       : deepspeed                      ? "megatron-deepspeed"
								: "megatron-core";
	int rc = flash && sc_foreign_is_on(file, "use-flash-attn")
			 ? sc_foreign_put(file, flash, "training.attention", "flash", err)
			 : 0;

	return rc ? rc : sc_foreign_put_software(file, software, err);
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
		take_family,    take_width,     take_vocab,   take_ends,  take_experts,
		take_graphs,    take_latent,    take_window,  take_gpus,  take_split,
		take_precision, take_recompute, take_kernels, take_batch,
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
