/* Files of other programs: what a file says is taken, listed or refused, whatever the tables of
 * configs/foreign have. */
#include "config_fixture.h"
#include "core/config/config.h"
#include "core/foreign/foreign.h"
#include "runner.h"

static const struct program {
	const struct sc_foreign_format *format;
	const char *base; /* a file of it, as YAML */
} PROGRAMS[] = {
	{&sc_format_megatron,
	 "{program: pretrain_gpt.py, --num-layers: 24, --hidden-size: 2048, --num-attention-heads: 16, "
	 "--seq-length: 2048, --vocab-size: 50257, --micro-batch-size: 4, --global-batch-size: 64, "
	 "--tensor-model-parallel-size: 2, --bf16: true, --swiglu: true, --use-distributed-optimizer: true}"},
	{&sc_format_nemo,
	 "{trainer: {devices: 8, num_nodes: 4, precision: bf16}, model: {micro_batch_size: 1, "
	 "global_batch_size: 64, tensor_model_parallel_size: 4, encoder_seq_length: 4096, num_layers: 40, "
	 "hidden_size: 5120, num_attention_heads: 40, vocab_size: 32000, optim: {name: fused_adam}}}"},
	{&sc_format_torchtitan,
	 "{model: {name: llama3, flavor: 8B}, training: {local_batch_size: 2, seq_len: 8192}, "
	 "parallelism: {data_parallel_shard_degree: 8}, activation_checkpoint: {mode: none}, "
	 "compile: {enable: true}}"},
	{&sc_format_deepspeed,
	 "{train_micro_batch_size_per_gpu: 4, gradient_accumulation_steps: 2, bf16: {enabled: true}, "
	 "zero_optimization: {stage: 2}, optimizer: {type: AdamW}}"},
	{&sc_format_hf,
	 "{model_type: llama, hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: 32, "
	 "num_attention_heads: 32, vocab_size: 32000}"},
};

static struct sc_foreign_lines lines;
static struct sc_foreign file;

static struct sc_yaml *parse(const char *text)
{
	struct sc_yaml *root;

	ck_assert_msg(sc_yaml_parse(&(struct sc_source){text, strlen(text), "theirs"}, &arena,
				    &root, &err) == 0,
		      "%s", err.text);
	return root;
}

/* A key with its sections, put into a tree in place of what stands there. */
static void put(struct sc_yaml *map, const char *path, const char *text)
{
	size_t n = strcspn(path, ".");
	const char *key = sc_arena_strndup(&arena, path, n);
	struct sc_yaml **link = &map->child, *node;

	while (*link && strcmp((*link)->key, key) != 0)
		link = &(*link)->next;
	node = sc_arena_calloc(&arena, 1, sizeof(*node));
	*node = (struct sc_yaml){.kind = path[n] ? SC_YAML_MAP : SC_YAML_SCALAR, .file = "theirs"};
	node->key = key;
	node->text = text;
	node->key_line = node->key_column = node->line = node->column = 1;
	if (*link && (*link)->kind == SC_YAML_MAP && path[n])
		node = *link;
	else if (*link)
		node->next = (*link)->next;
	if (!*link)
		map->n_children++;
	*link = node;
	if (path[n])
		put(node, path + n + 1, text);
}

static int take(const struct sc_foreign_format *format, struct sc_yaml *root)
{
	int rc;

	memset(&err, 0, sizeof(err));
	lines = (struct sc_foreign_lines){.arena = &arena, .tables = lines.tables, .gpus = 8};
	file = (struct sc_foreign){.format = format, .lines = &lines};
	rc = sc_foreign_take(&file, root, &err);
	return rc ? rc : sc_foreign_finish(&lines, &err);
}

/* All that the lines say, to be compared. */
static const char *said(void)
{
	const char *text = "";

	for (const struct sc_foreign_line *line = lines.first; line; line = line->next)
		text = sc_arena_printf(&arena, "%s%s=%s\n", text, line->path,
				       line->node->text ? line->node->text : "a list");
	return text;
}

static const char *value_of(const char *path)
{
	const struct sc_yaml *node = sc_foreign_line_of(&lines, path);

	return node ? node->text : NULL;
}

static bool is_listed(const char *key)
{
	for (const struct sc_foreign_line *line = lines.ignored; line; line = line->next)
		if (strcmp(line->theirs, key) == 0)
			return true;
	return false;
}

static void set_up_tables(void)
{
	set_up();
	memset(&lines, 0, sizeof(lines));
}

FIXTURE(set_up_tables, tear_down)

/* How many keys were tried, and went without a word whatever they say. */
static int n_tried, n_silent;

static void change(const struct program *program, const char *name)
{
	static const char *const values[] = {"7", "true", "false", "bf16", "none", "4608"};
	const char *mark = program->format->mark ? program->format->mark : "", *before;
	const char *key = sc_arena_printf(&arena, "%s%s", mark, name);
	int silent = 0;

	if (strchr(name, '*') || strcmp(name, SC_SHELL_PROGRAM) == 0)
		return;
	ck_assert_int_eq(take(program->format, parse(program->base)), 0);
	before = said();
	for (int i = 0; i < N_OF(values); i++) {
		struct sc_yaml *root = parse(program->base);

		put(root, key, values[i]);
		n_tried++;
		silent += take(program->format, root) == 0 && !is_listed(key) &&
			  strcmp(said(), before) == 0;
	}
	if (silent < N_OF(values))
		return; /* some say what holds without the key */
	printf("%s: %s says nothing\n", program->format->name, key);
	n_silent++;
}

LOOP_TEST(each_key_is_taken_listed_or_refused, N_OF(PROGRAMS))
{
	const struct program *program = &PROGRAMS[_i];
	const struct sc_foreign_table *table;
	char name[SC_FOREIGN_MAX_NAME];

	n_tried = n_silent = 0;
	ck_assert_msg(take(program->format, parse(program->base)) == 0, "%s", err.text);
	table = file.table;
	for (const struct sc_foreign_key *row = table->rows; row->theirs; row++)
		change(program, row->theirs);
	for (int rule = SC_KEY_READ; rule < SC_KEY_UNKNOWN; rule++)
		for (const char *names = table->names[rule]; sc_foreign_next(&names, " \n", name);)
			change(program, sc_arena_strdup(&arena, name));
	for (size_t i = 0; i < table->n_rules; i++)
		for (const char *names = table->rules[i].of; sc_foreign_next(&names, " ", name);)
			change(program, sc_arena_strdup(&arena, name));
	ck_assert_int_gt(n_tried, 100);
	ck_assert_int_eq(n_silent, 0);
}

/* What a name with a star stands for is not known: it takes no key of memory or of the update that
 * it does not name. */
LOOP_TEST(no_star_takes_what_decides_memory, N_OF(PROGRAMS))
{
	static const char *const words[] = {"dtype", "state",  "optimizer", "offload",
					    "main",  "params", "grads"};
	const struct program *program = &PROGRAMS[_i];
	char name[SC_FOREIGN_MAX_NAME];
	int n = 0;

	ck_assert_int_eq(take(program->format, parse(program->base)), 0);
	for (int rule = SC_KEY_READ; rule < SC_KEY_UNKNOWN; rule++)
		for (const char *names = file.table->names[rule];
		     sc_foreign_next(&names, " \n", name);) {
			const char *star = strchr(name, '*');

			for (int i = 0; star && i < N_OF(words); i++) {
				const char *part = strrchr(name, '.') ? strrchr(name, '.') : name;
				const char *path =
					sc_arena_printf(&arena, "%.*sa-%s-b%s", (int)(star - name),
							name, words[i], star + 1);
				struct sc_foreign_leaf leaf = {.path = path, .bare = path};

				if (strstr(part, sc_arena_strndup(&arena, words[i], 4)))
					continue; /* the name says it */
				ck_assert_msg(!sc_foreign_is_in(name, &leaf), "%s takes %s", name,
					      path);
				n++;
			}
		}
	ck_assert_int_gt(n, 20);
}

/* What a model_type implies, and a shipped model has, gives way to the file's own value. */
TEST(own_values_beat_implied_ones)
{
	static const struct {
		const char *theirs, *value, *ours;
	} keys[] = {
		{"tie_word_embeddings", "true", "model.tied_embeddings"},
		{"tie_word_embeddings", "false", "model.tied_embeddings"},
		{"mlp_bias", "true", "model.biases"},
		{"mlp_bias", "false", "model.biases"},
		{"n_shared_experts", "3", "model.shared_experts"},
		{"moe_intermediate_size", "1408", "model.expert_ffn_hidden"},
		{"intermediate_size", "10240", "model.ffn_hidden"},
		{"vocab_size", "30080", "model.vocab"},
		{"num_key_value_heads", "4", "model.kv_heads"},
		{"head_dim", "96", "model.head_dim"},
		{"num_hidden_layers", "13", "model.layers"},
	};
	const struct sc_yaml *types;
	int n = 0;

	ck_assert_int_eq(take(&sc_format_hf, parse(PROGRAMS[4].base)), 0);
	types = sc_yaml_get(file.table->root, "types");
	for (const struct sc_yaml *type = types->child; type; type = type->next)
		for (int i = 0; i < N_OF(keys); i++) {
			struct sc_yaml *root = parse(PROGRAMS[4].base);

			put(root, SC_HF_MARK, type->key);
			put(root, keys[i].theirs, keys[i].value);
			if (take(&sc_format_hf, root))
				continue; /* layers that are not modelled */
			ck_assert_msg(value_of(keys[i].ours) != NULL, "%s: %s", type->key,
				      keys[i].ours);
			ck_assert_str_eq(value_of(keys[i].ours), keys[i].value);
			n++;
		}
	ck_assert_int_gt(n, 200);
}

/* The config of a tree, as `config import` has it. */
static void import(const struct program *program, struct sc_yaml *root, struct sc_config *config)
{
	ck_assert_msg(take(program->format, root) == 0, "%s", err.text);
	ck_assert_msg(sc_config_take(sc_foreign_tree(&lines, "theirs"), &arena, config, &err) == 0,
		      "%s", err.text);
}

TEST(sequence_of_a_file_beats_that_of_its_shipped_model)
{
	static const char *const flavors[][2] = {{"llama3", "8B"},      {"llama3", "405B"},
						 {"llama4", "17bx16e"}, {"gpt_oss", "20b"},
						 {"qwen3", "30B-A3B"},  {"deepseek_v3", "671B"}};
	struct sc_config config;

	for (int i = 0; i < N_OF(flavors); i++) {
		struct sc_yaml *root = parse(PROGRAMS[2].base);
		const struct sc_origin *origin;

		put(root, "model.name", flavors[i][0]);
		put(root, "model.flavor", flavors[i][1]);
		put(root, "training.seq_len", "1536");
		import(&PROGRAMS[2], root, &config);
		ck_assert_int_eq(config.model.seq, 1536);
		ck_assert_int_gt(config.model.layers, 0);
		origin = sc_config_origin(&config, "model.seq");
		ck_assert_str_eq(origin->file, "theirs");
	}
}

/* States of an optimizer: what each program calls them. */
TEST(states_have_the_bytes_that_the_file_says)
{
	static const struct {
		int program;
		const char *key, *value, *more, *more_value;
		double moment, master;
		int64_t grad; /* each -1: not said */
	} rows[] = {
		{0, "--exp-avg-dtype", "bf16", "--exp-avg-sq-dtype", "bf16", 2, -1, -1},
		{0, "--exp-avg-dtype", "fp8", "--exp-avg-sq-dtype", "fp8", 1, -1, -1},
		{0, "--exp-avg-sq-dtype", "fp32", "--main-params-dtype", "fp16", 4, 2, -1},
		{0, "--main-grads-dtype", "bf16", "--main-params-dtype", "fp32", -1, 4, 2},
		{2, "optimizer.state_dtype", "bfloat16", "training.dtype", "float32", 2, -1, -1},
		{2, "training.dtype", "bfloat16", "optimizer.lr", "0.1", 2, 0, -1},
		{2, "training.dtype", "bfloat16", "optimizer.state_dtype", "float32", 4, 0, -1},
		{3, "bf16.bf16_master_weights_and_grads", "true", "bf16.bf16_optimizer_states",
		 "true", 2, 2, -1},
	};
	struct sc_config config;

	for (int i = 0; i < N_OF(rows); i++) {
		struct sc_yaml *root = parse(PROGRAMS[rows[i].program].base);

		put(root, rows[i].key, rows[i].value);
		put(root, rows[i].more, rows[i].more_value);
		import(&PROGRAMS[rows[i].program], root, &config);
		ck_assert_double_eq_tol(config.training.moment_bytes, rows[i].moment, 1e-12);
		ck_assert_double_eq_tol(config.training.master_bytes, rows[i].master, 1e-12);
		ck_assert_int_eq(config.training.grad_bytes > 0 ? config.training.grad_bytes : -1,
				 rows[i].grad);
	}
}

/* Megatron's hybrids are lists of layers, with transformer_config.py's sizes where none are given.
 */
TEST(hybrids_of_megatron_are_their_list_of_layers)
{
	struct sc_yaml *root = parse(PROGRAMS[0].base);
	struct sc_config config;

	put(root, "--num-layers", "4");
	put(root, "--hybrid-override-pattern", "ME*-");
	put(root, "--num-experts", "8");
	put(root, "--mamba-head-dim", "128");
	put(root, "--swiglu", "false");
	import(&PROGRAMS[0], root, &config);
	ck_assert_str_eq(config.model.layers_pattern, "ME*-");
	ck_assert_int_eq(config.model.family, SC_NEMOTRON_H);
	ck_assert_int_eq(config.model.mamba2.key_dim, 128);
	ck_assert_int_eq(config.model.mamba2.value_dim, 128);
	ck_assert_int_eq(config.model.mamba2.value_heads, 2 * 2048 / 128);
	ck_assert_int_eq(config.model.mamba2.key_heads, 8);
}

/* dist_muon deals whole matrices to ranks, muon steps all on each. */
TEST(muon_of_megatron_is_shared_out_where_it_says_so)
{
	static const struct {
		const char *optimizer;
		enum sc_zero sharding;
	} rows[] = {{"dist_muon", SC_ZERO1}, {"muon", SC_ZERO_NONE}};
	struct sc_config config;

	for (int i = 0; i < N_OF(rows); i++) {
		struct sc_yaml *root = parse(PROGRAMS[0].base);

		put(root, "--use-distributed-optimizer", "false");
		put(root, "--optimizer", rows[i].optimizer);
		import(&PROGRAMS[0], root, &config);
		ck_assert_int_eq(config.training.optimizer, SC_OPT_MUON);
		ck_assert_int_eq(config.parallel.sharding, rows[i].sharding);
	}
}

/* A learned logit more is a sink; other kinds of softmax have none. */
TEST(a_learnable_softmax_of_megatron_has_sinks)
{
	static const char *const TYPES[] = {"vanilla", "off-by-one", "learnable"};
	struct sc_config config;

	for (int i = 0; i < N_OF(TYPES); i++) {
		struct sc_yaml *root = parse(PROGRAMS[0].base);

		put(root, "--softmax-type", TYPES[i]);
		import(&PROGRAMS[0], root, &config);
		ck_assert_int_eq(config.model.attention_sinks > 0, i == 2);
	}
}
