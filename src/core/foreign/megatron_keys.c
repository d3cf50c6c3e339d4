/* Sources: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py and
 * megatron/core/model_parallel_config.py of Megatron-LM (core 0.8 to 0.14);
 * megatron_gpt_config.yaml of NeMo 1; the ConfigContainer of Megatron-Bridge. */
#include "core/foreign/foreign.h"

#include <string.h>

#include "base/num.h"

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

/* Rows of the embedding are padded so that they split over tp ranks (tokenizer.py,
 * _vocab_size_with_padding). */
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
static int64_t read_digits(const char **text)
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

/* How many of the first have none: of "([0]*3+[1]*58)", "([1]*61)" or a list; -1: another order. */
static int64_t dense_of(const struct sc_yaml *node)
{
	const char *text = node->text;
	int64_t n = 0, n_sparse = 0;

	for (const struct sc_yaml *one = node->child; one; one = one->next) {
		bool dense = one->kind == SC_YAML_SCALAR && strcmp(one->text, "0") == 0;

		if (dense && n_sparse)
			return -1;
		n += dense;
		n_sparse += !dense;
	}
	if (node->kind != SC_YAML_SCALAR)
		return n_sparse ? n : -1;
	text += strspn(text, "( ");
	if (strncmp(text, "[0]*", 4) == 0) {
		text += 4;
		n = read_digits(&text);
		if (n < 1 || *text++ != '+')
			return -1;
	}
	if (strncmp(text, "[1]*", 4) != 0)
		return -1;
	text += 4;
	return read_digits(&text) > 0 && !text[strspn(text, ") ")] ? n : -1;
}

/* "2": one in two has experts, the first there and the last here: as many, if layers divide. */
static int take_dense_layers(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *leaf =
		is_given(file, "model.experts") ? sc_foreign_get(file, "moe-layer-freq") : NULL;
	int64_t every = leaf ? sc_foreign_count(file, "moe-layer-freq", 0) : 0;
	int64_t layers = sc_foreign_count(file, "num-layers", 0), n;

	if (!leaf || every == 1)
		return 0;
	if (every && layers % every == 0)
		return sc_foreign_put_count(file, leaf, "model.experts_every", every, err);
	n = dense_of(leaf->node);
	if (n < 0)
		return sc_foreign_fail(leaf, err,
				       "only the first layers may be without experts, as in "
				       "\"([0]*3+[1]*58)\", or all but one in so many, a number "
				       "that divides the layers");
	return n ? sc_foreign_put_count(file, leaf, "model.dense_layers", n, err) : 0;
}

/* "128,0", "(128, 0)", [128, 0]: tokens before a token, and behind it. */
static int take_window(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, "window-size");
	const struct sc_foreign_leaf *skip;
	const struct sc_yaml *first =
		leaf ? leaf->node->child ? leaf->node->child : leaf->node : NULL;
	const char *text = first && first->kind == SC_YAML_SCALAR ? first->text : "";
	int64_t n;
	int rc;

	if (!leaf || sc_yaml_is_null(leaf->node) || strncmp(text, "-1", 2) == 0)
		return 0;
	text += strspn(text, "( ");
	n = read_digits(&text);
	if (n < 1 || !(*text == '\0' || strchr(", )", *text)))
		return sc_foreign_fail(leaf, err, "expected two numbers, as in 128,0");
	rc = sc_foreign_put_count(file, leaf, "model.sliding_window", n, err);
	skip = sc_foreign_get(file, "window-attn-skip-freq");
	if (rc == 0 && skip && !sc_yaml_is_null(skip->node))
		rc = sc_foreign_put(file, skip, "model.full_attention_every", NULL, err);
	return rc;
}

static int finish_megatron(struct sc_foreign *file, struct sc_err *err)
{
	int rc = take_width(file, err);

	if (rc == 0)
		rc = take_vocab(file, err);
	if (rc == 0)
		rc = take_dense_layers(file, err);
	return rc ? rc : take_window(file, err);
}

const struct sc_foreign_format sc_format_megatron = {.name = "options of Megatron-LM",
						     .mark = "--",
						     .table = "megatron",
						     .strict = true,
						     .order = 1,
						     .finish = finish_megatron};

static const char *const SECTIONS[] = {
	"model.",           "train.",   "ddp.",          "optimizer.", "trainer.",
	"mixed_precision.", "dataset.", "comm_overlap.", "dist.",      NULL};
const struct sc_foreign_format sc_format_nemo = {.name = "NeMo or Megatron-Bridge",
						 .table = "nemo",
						 .more = "megatron",
						 .sections = SECTIONS,
						 .strict = false,
						 .order = 1,
						 .finish = finish_megatron};
