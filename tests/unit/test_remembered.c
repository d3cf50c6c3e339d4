/* Memories of a thread show in no bit of a prediction: walks of neighbours, each of which is
 * one key away from the last, through one evaluator, and each of them through a new one. */
#include "random_key.h"
#include "runner.h"

#include "example_fixture.h"
#include "predict/schedule/schedule_file.h"

/* A walk ends after so many steps or simulated nodes, and does not go on from a config with more
 * nodes than LARGE; the plan of a DLRM's tables takes as long as N_OF_PLAN nodes. */
enum { N_WALKS = 70, N_STEPS = 28, MOST_NODES = 200000, LARGE = 5000, N_OF_PLAN = 25000 };
enum { N_TRIES = 60, TRAIL_TEXT = 4096 };

/* Answers to one request, by one evaluator. */
struct answer {
	struct sc_evaluator *e;
	int rc, floor_rc;
	struct sc_err err, floor_err;
};
/* Lines of key=value, and the key where it is one; no text: there is none. */
struct move {
	const char *path, *text;
};
struct walk {
	struct sc_rng rng;
	struct keys keys;
	struct sc_config config;
	struct sc_predict_opts opts;
	char trail[TRAIL_TEXT]; /* all that led here */
	size_t n_nodes;         /* that were simulated */
	int n_asked;            /* configs, of which some came before */
};

static struct walk walk;

/* Asks for the evaluator's request. */
static void ask_request(struct sc_evaluator *e, bool floor_first, struct answer *out)
{
	*out = (struct answer){.e = e};
	e->opts = walk.opts;
	memset(&e->floor, 0, sizeof(e->floor));
	for (int i = 0; i < 2; i++)
		if ((i == 0) == floor_first)
			out->floor_rc = sc_evaluate_floor(e, &out->floor_err);
		else
			out->rc = sc_evaluate_request(e, &out->err);
}

static void ask(struct sc_evaluator *e, const struct sc_config *config, bool floor_first,
		struct answer *out)
{
	const struct sc_candidate candidate = {.base = config};

	*out = (struct answer){.e = e};
	e->opts = walk.opts;
	out->rc = out->floor_rc = sc_evaluate_resolve(e, &candidate, &out->err);
	if (out->rc == 0)
		ask_request(e, floor_first, out);
}

enum { MOST_NUMBERS = 64 };

static size_t numbers_of(const struct answer *a, double out[MOST_NUMBERS])
{
	const struct sc_prediction *p = &a->e->prediction;
	const double numbers[] = {
		p->iteration_ms,      p->low_ms,       p->high_ms,       p->mfu,
		p->mfu_bf16,          p->mfu_causal,   p->model_flop,    p->tflops_gpu,
		p->tflops_gpu_causal, p->tokens_per_s, p->samples_per_s, p->params.total,
		p->network_gbps,      p->network_frac, p->params.active, (double)p->n_nodes,
		p->reading.comm_ms};
	size_t n = sizeof(numbers) / sizeof(*numbers);

	memcpy(out, numbers, sizeof(numbers));
	memcpy(out + n, p->reading.breakdown_ms, sizeof(p->reading.breakdown_ms));
	n += SC_N_OWNERS;
	memcpy(out + n, &p->memory, sizeof(p->memory));
	return n + sizeof(p->memory) / sizeof(double);
}

static void check_same(const struct answer *warm, const struct answer *cold)
{
	const struct sc_floor *a = &warm->e->floor, *b = &cold->e->floor;
	const struct sc_warnings *told = &warm->e->prediction.warnings,
				 *expected = &cold->e->prediction.warnings;
	double numbers[2][MOST_NUMBERS];
	size_t n;

	ck_assert_msg(warm->rc == cold->rc && warm->floor_rc == cold->floor_rc &&
			      strcmp(warm->err.text, cold->err.text) == 0,
		      "%s: \"%s\", anew \"%s\"", walk.trail, warm->err.text, cold->err.text);
	if (cold->floor_rc == 0)
		ck_assert_msg(a->iteration_ms == b->iteration_ms && a->is_least == b->is_least &&
				      memcmp(&a->memory, &b->memory, sizeof(a->memory)) == 0,
			      "%s: floor %.17g ms, anew %.17g", walk.trail, a->iteration_ms,
			      b->iteration_ms);
	if (cold->rc)
		return;
	n = numbers_of(warm, numbers[0]);
	numbers_of(cold, numbers[1]);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(memcmp(&numbers[0][i], &numbers[1][i], sizeof(double)) == 0,
			      "%s: number %zu is %.17g, anew %.17g", walk.trail, i, numbers[0][i],
			      numbers[1][i]);
	ck_assert_uint_eq(told->n, expected->n);
	for (size_t i = 0; i < told->n; i++)
		ck_assert_str_eq(told->text[i], expected->text[i]);
}

static void compare(const struct sc_config *config, struct answer *cold)
{
	struct answer warm;
	const bool floor_first = sc_rng_below(&walk.rng, 2);

	ask(evaluator, config, floor_first, &warm);
	if (!cold->e) {
		cold->e = sc_evaluator_create(catalog);
		ask(cold->e, config, !floor_first, cold);
	}
	check_same(&warm, cold);
	walk.n_nodes += cold->e->plan.is_there ? N_OF_PLAN : cold->e->prediction.n_nodes;
	walk.n_asked++;
}

/* ---- moves ---- */

/* Changes that a key at random seldom makes: of what decides a pipeline, and of several keys. */
static const char *const SETTINGS[] = {
	"training.micro_batch=1",
	"training.micro_batch=2",
	"training.micro_batch=3",
	"training.global_batch=384",
	"training.global_batch=1536",
	"parallel.pp=2",
	"parallel.pp=4",
	"parallel.pp=8",
	"parallel.dp=2",
	"parallel.dp=8",
	"parallel.dp=24",
	"parallel.tp=2",
	"parallel.tp=8",
	"parallel.cp=2",
	"parallel.ep=2",
	"parallel.etp=1",
	"parallel.virtual_stages=2",
	"parallel.sharding=none",
	"parallel.sharding=zero2",
	"parallel.sharding=fsdp",
	"parallel.schedule=gpipe",
	"parallel.schedule=1f1b",
	"parallel.schedule=zb-h1",
	"parallel.schedule=zb-2p",
	"parallel.schedule=breadth-first\nparallel.virtual_stages=2",
	"parallel.schedule=chimera",
	"parallel.schedule=chimera\nparallel.chimera_replicas=4",
	"parallel.schedule=gems",
	"parallel.schedule=pipedream-2bw",
	"parallel.schedule=zb-v\nparallel.virtual_stages=2",
	"parallel.schedule=v-half\nparallel.virtual_stages=2",
	"parallel.schedule=dualpipev\nparallel.virtual_stages=2",
	"parallel.schedule=hanayo\nparallel.virtual_stages=2",
	"parallel.schedule=hanayo\nparallel.virtual_stages=4\nparallel.waves=2",
	"parallel.vocab_stages=vocab-1",
	"training.recompute=full\ntraining.recompute_layers=1\nparallel.pp=2",
	"training.recompute=full\ntraining.recompute_layers=1\nparallel.pp=4",
	"training.recompute=full\ntraining.recompute_layers=2",
	"training.trainable=lora",
	"training.software=megatron-lm",
	"training.software=deepspeed-zero3",
	"cluster.gpus_per_node=4",
	"cluster.gpu=h200-sxm-141gb",
};

/* Settings, or a key that the config may have and, mostly, that has an effect. */
static struct move random_move(struct walk *w, const struct sc_config *now)
{
	const struct key *key = &w->keys.at[sc_rng_below(&w->rng, w->keys.n)];
	const bool any = sc_rng_below(&w->rng, 30) == 0;
	const char *value;

	if (sc_rng_below(&w->rng, 4) == 0 && now->model.family != SC_DLRM)
		return (struct move){.path = "settings", .text = PICK(&w->rng, SETTINGS)};
	value = any || may_matter(key, now) ? random_value(&w->rng, key, now) : NULL;
	if (!value)
		return (struct move){NULL, NULL};
	return (struct move){key->path, sc_arena_printf(&arena, "%s=%s", key->path, value)};
}

/* False: a value is refused, or there is no move. */
static bool apply(const struct move *move, struct sc_config *config)
{
	char *text = move->text ? sc_arena_strdup(&arena, move->text) : NULL, *save = NULL;
	bool done = text != NULL;

	for (char *word = text ? strtok_r(text, "\n", &save) : NULL; word && done;
	     word = strtok_r(NULL, "\n", &save)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		done = sc_config_set(config, &(struct sc_setting){word, value, "test"}, &arena,
				     NULL) == 0;
	}
	return done;
}

static bool is_legal(const struct sc_config *config)
{
	const struct sc_candidate candidate = {.base = config};

	return sc_evaluate_resolve(evaluator, &candidate, NULL) == 0;
}

/* Says whether the request that was resolved last ignores it. */
static bool is_ignored(const struct move *move)
{
	const struct sc_warnings *told = &evaluator->request.warnings;

	for (size_t i = 0; i < told->n; i++)
		if (strstr(told->text[i], "has no effect") && strstr(told->text[i], move->path))
			return true;
	return false;
}

/* A change that can be resolved. Plans of many tables take long to make. */
static struct move find_move(struct walk *w, const struct sc_config *now)
{
	const bool is_dlrm = now->model.family == SC_DLRM;

	for (int i = 0; i < N_TRIES; i++) {
		const struct move move = random_move(w, now);
		struct sc_config config = w->config;

		if (apply(&move, &config) && is_legal(&config) && !is_ignored(&move) &&
		    is_dlrm == (evaluator->request.config.model.family == SC_DLRM))
			return move;
	}
	return (struct move){0};
}

static void tell(struct walk *w, const struct move *move)
{
	const size_t n = strlen(w->trail);

	if (move->text)
		snprintf(w->trail + n, sizeof(w->trail) - n, " %s", move->text);
}

/* Asks for the base in another way, as what-ifs and other detail do. */
static void change_options(struct walk *w, struct answer *base)
{
	double *const speeds[] = {&w->opts.gemm_speed, &w->opts.hbm_speed, &w->opts.link_speed,
				  &w->opts.nic_speed, &w->opts.host_speed};
	bool *const flags[] = {&w->opts.brief, &w->opts.no_jump, &w->opts.memory_first,
			       &w->opts.memory_least};

	w->opts.brief = true;
	if (sc_rng_below(&w->rng, 2)) {
		double *speed = PICK(&w->rng, speeds);

		*speed = *speed < 1 ? 1 : 0.8;
	} else {
		bool *flag = PICK(&w->rng, flags);

		*flag = !*flag;
	}
	sc_evaluator_destroy(base->e);
	*base = (struct answer){0};
	compare(&w->config, base);
}

/* A config with and without each of two changes, and once more without; the next base is one of
 * these. */
static void walk_step(struct walk *w, struct answer *base)
{
	struct sc_config now = base->e->request.config, config[4];
	struct answer cold[4] = {*base};
	struct move moves[2];
	size_t n_trail = strlen(w->trail);
	size_t next = 0;

	for (int j = 0; j < 2; j++)
		moves[j] = find_move(w, &now);
	for (size_t i = 0; i < 5; i++) {
		const size_t k = (i ^ i >> 1) & 3; /* each has one change more or less */

		config[k] = w->config;
		w->trail[n_trail] = 0;
		for (int j = 0; j < 2; j++)
			if (k & 1u << j) {
				tell(w, &moves[j]);
				if (!apply(&moves[j], &config[k]))
					goto out;
			}
		compare(&config[k], &cold[k]);
		if (k && cold[k].rc == 0 && cold[k].e->prediction.n_nodes < LARGE &&
		    sc_rng_below(&w->rng, 6) == 0)
			next = k;
	}
out:
	w->trail[n_trail] = 0;
	for (size_t j = 0; j < 2; j++)
		if (next & 1u << j)
			tell(w, &moves[j]);
	w->config = config[next];
	*base = cold[next];
	for (size_t k = 0; k < 4; k++)
		if (k != next)
			sc_evaluator_destroy(cold[k].e);
}

/* An example, or a config at random, many of another model than it was drawn with. */
static void begin_at(struct walk *w, int i)
{
	const int n_examples = find_examples(), nth = i * 7 % n_examples;
	const struct sc_setting model = {
		"model", sc_arena_printf(&arena, "models/%s.yaml", random_id(&w->rng, "models")),
		"test"};
	struct sc_config other;

	if (i % 2 == 0) {
		load_example(nth, &w->config);
		snprintf(w->trail, sizeof(w->trail), "%s", example_name(nth));
		return;
	}
	for (uint64_t seed = (uint64_t)i << 20; *w->trail == 0; seed++) {
		load_random(seed, &w->config);
		other = w->config;
		if (sc_config_set(&other, &model, &arena, NULL) == 0 && is_legal(&other)) {
			w->config = other;
			snprintf(w->trail, sizeof(w->trail), "config %" PRIu64 " of %s", seed,
				 model.text);
		} else if (is_legal(&w->config)) {
			snprintf(w->trail, sizeof(w->trail), "config %" PRIu64, seed);
		}
	}
}

FIXTURE(set_up, tear_down)

LOOP_TEST(walks_do_not_show, n_cases(N_WALKS))
{
	struct answer base = {0};

	memset(&walk, 0, sizeof(walk));
	sc_rng_init(&walk.rng, (uint64_t)_i);
	walk.opts = opts;
	walk.opts.brief = true;
	find_keys(sc_config_fields, (struct key){.path = ""}, &walk.keys);
	begin_at(&walk, _i);
	compare(&walk.config, &base);
	ck_assert_msg(base.rc == 0, "%s: %s", walk.trail, base.err.text);
	for (int i = 0; i < N_STEPS && walk.n_nodes < MOST_NODES; i++) {
		if (sc_rng_below(&walk.rng, 6) == 0)
			change_options(&walk, &base);
		walk_step(&walk, &base);
	}
	ck_assert_int_gt(walk.n_asked, 5);
	sc_evaluator_destroy(base.e);
}

/* Pairs that differ in one thing alone of what an answer is known by, which a walk seldom meets. */
static const struct {
	const char *base, *one, *other;
} PAIRS[] = {
	/* samples of the last micro-batch */
	{"parallel.dp=1 training.micro_batch=4", "training.global_batch=9",
	 "training.global_batch=10"},
	/* the share of layers that recompute */
	{"cluster.gpu=p100-pcie-16gb parallel.dp=1 training.global_batch=8 "
	 "training.micro_batch=1 training.recompute=full training.recompute_layers=1",
	 "parallel.pp=2", "parallel.pp=4"},
	/* how experts are cut, where none is trained */
	{"model=models/mixtral-8x7b.yaml parallel.tp=2 parallel.dp=2 parallel.ep=2 "
	 "training.global_batch=8 training.micro_batch=1 training.trainable=lora "
	 "training.lora_targets=attention",
	 "parallel.etp=1", "parallel.etp=2"},
	/* policies of tensor parallelism, their pieces, and channels */
	{"parallel.tp=4 parallel.dp=1 parallel.sequence_parallel=true training.global_batch=8 "
	 "training.micro_batch=1",
	 "c3.policy.tp=serial", "c3.policy.tp=comm_first"},
	{"parallel.tp=4 parallel.dp=1 parallel.sequence_parallel=true training.global_batch=8 "
	 "training.micro_batch=1",
	 "c3.policy.tp=chunked:2", "c3.policy.tp=chunked:4"},
	{"parallel.tp=4 parallel.dp=1 training.global_batch=8 training.micro_batch=1",
	 "c3.channels=2", "c3.channels=8"},
	/* micro-batches of the steady state that are not run, which a stage holds all the same */
	{"parallel.pp=4 parallel.dp=1 parallel.schedule=gpipe training.micro_batch=1",
	 "training.global_batch=512", "training.global_batch=1024"},
	/* sends that are waited for */
	{"parallel.pp=4 parallel.dp=1 training.micro_batch=1 training.global_batch=32",
	 "c3.policy.pp=serial", "c3.policy.pp=comm_first"},
	{"parallel.pp=4 parallel.dp=1 training.micro_batch=1 training.global_batch=32 "
	 "parallel.schedule=zb-h1",
	 "parallel.optimizer_validation=before", "parallel.optimizer_validation=after"},
	/* hosts that are late, or not */
	{"parallel.pp=4 training.micro_batch=1 training.global_batch=32", "model.seq=64",
	 "model.seq=4096"},
	{"parallel.pp=4 training.micro_batch=1 training.global_batch=32 model.seq=256",
	 "training.cuda_graphs=false", "training.cuda_graphs=true"},
	/* an order of passes that follows their times */
	{"parallel.pp=4 training.micro_batch=1 training.global_batch=32 "
	 "parallel.schedule=zb-2p",
	 "model.vocab=32000", "model.vocab=512000"},
	{"parallel.pp=4 training.micro_batch=1 training.global_batch=32 "
	 "parallel.schedule=hanayo parallel.waves=2",
	 "model.vocab=32000", "model.vocab=512000"},
	/* replicas */
	{"parallel.pp=4 training.micro_batch=1", "parallel.dp=2 training.global_batch=64",
	 "parallel.dp=4 training.global_batch=128"},
	{"parallel.pp=4 training.micro_batch=1 parallel.tp=2 cluster.gpus_per_node=4",
	 "parallel.dp=2 training.global_batch=64", "parallel.dp=4 training.global_batch=128"},
	/* ranks of a stage on each node, which meet the same peers */
	{"parallel.pp=3 parallel.dp=3 training.micro_batch=2 training.global_batch=48 "
	 "model.layers=24",
	 "cluster.gpus_per_node=1 parallel.order=tp-pp-dp",
	 "cluster.gpus_per_node=3 parallel.order=tp-dp-pp"},
	/* kinds of schedules whose passes begin alike, and how many there are */
	{"parallel.pp=4 parallel.dp=1 training.micro_batch=1 training.global_batch=8",
	 "parallel.schedule=1f1b", "parallel.schedule=gpipe"},
	{"parallel.pp=4 parallel.dp=1 training.micro_batch=1", "training.global_batch=8",
	 "training.global_batch=9"},
	{"parallel.pp=4 parallel.dp=1 training.micro_batch=1 training.global_batch=8",
	 "parallel.vocab_stages=vocab-1", "parallel.vocab_stages=vocab-2"},
	/* stages on other nodes */
	{"parallel.pp=4 parallel.tp=2 parallel.dp=1 training.micro_batch=1 "
	 "training.global_batch=32",
	 "cluster.gpus_per_node=2", "cluster.gpus_per_node=8"},
	/* passes of sharded weights alone: what collectives run beside, how many layers there are,
	 * whether the head is the embedding, and which ranks share NICs */
	{"parallel.tp=4 parallel.dp=2 parallel.sharding=fsdp parallel.sequence_parallel=true "
	 "training.global_batch=8 training.micro_batch=1",
	 "c3.policy.tp=serial", "c3.policy.tp=comm_first"},
	{"parallel.dp=8 parallel.sharding=fsdp training.global_batch=8 training.micro_batch=1",
	 "model.layers=2", "model.layers=3"},
	{"parallel.dp=8 parallel.sharding=fsdp training.global_batch=8 training.micro_batch=1",
	 "model.tied_embeddings=false", "model.tied_embeddings=true"},
	{"parallel.dp=8 parallel.sharding=fsdp training.global_batch=8 training.micro_batch=1",
	 "cluster.gpus_per_node=2", "cluster.gpus_per_node=4"},
	/* layers that recompute, of stages of other lengths on as many GPUs */
	{"cluster.gpus_per_node=1 cluster.nics_per_node=1 training.micro_batch=1 "
	 "training.recompute=full training.recompute_layers=1",
	 "parallel.pp=2 parallel.dp=2 training.global_batch=16",
	 "parallel.pp=4 parallel.dp=1 training.global_batch=8"},
	/* collectives of tensor parallelism */
	{"parallel.tp=4 training.global_batch=8 training.micro_batch=1",
	 "parallel.sequence_parallel=false", "parallel.sequence_parallel=true"},
	/* gradients that are scattered each time */
	{"training.software=nvidia-pytorch parallel.dp=4 training.global_batch=8 training.micro_batch=1",
	 "parallel.sharding=none", "parallel.sharding=zero2"},
	/* passes side by side, of which steps are read */
	{"model=models/mixtral-8x7b.yaml parallel.pp=2 parallel.dp=2 parallel.ep=2 "
	 "parallel.schedule=dualpipev parallel.virtual_stages=2 training.micro_batch=1",
	 "training.global_batch=16", "training.global_batch=32"},
	/* exchanges beside others of their own pass, which those of pairs are not */
	{"model=models/mixtral-8x7b.yaml parallel.pp=2 parallel.dp=2 parallel.ep=2 "
	 "parallel.virtual_stages=2 training.micro_batch=1 training.global_batch=16 "
	 "training.moe_overlap=true",
	 "parallel.schedule=zb-v", "parallel.schedule=dualpipev"},
	/* passes side by side in the order of those of a class that comes later and is faster */
	{"model=models/gpt-oss-20b.yaml cluster.gpus_per_node=6 cluster.nics_per_node=6 "
	 "cluster.nic_gbit_s=100 parallel.pp=2 parallel.dp=24 parallel.ep=8 model.seq=2048 "
	 "parallel.schedule=dualpipev parallel.virtual_stages=2 training.micro_batch=1 "
	 "training.recompute=full training.moe_overlap=true",
	 "training.global_batch=96", "training.global_batch=192"},
};

static void begin_pair(const char *base)
{
	memset(&walk, 0, sizeof(walk));
	walk.opts = opts;
	walk.opts.brief = true;
	sc_config_init(&walk.config);
	set_all(&walk.config,
		"parallel.tp=1 parallel.pp=1 parallel.dp=1 cluster.gpu=h100-sxm-80gb "
		"cluster.gpus_per_node=8 cluster.nics_per_node=8 cluster.nic_gbit_s=400 "
		"model=models/llama2-7b.yaml training.software=megatron-core");
	set_all(&walk.config, base);
}

static void compare_with(const char *settings)
{
	struct sc_config config = walk.config;
	struct answer cold = {0};

	set_all(&config, settings);
	snprintf(walk.trail, sizeof(walk.trail), "%s", settings);
	compare(&config, &cold);
	ck_assert_msg(cold.rc == 0, "%s: %s", walk.trail, cold.err.text);
	sc_evaluator_destroy(cold.e);
}

/* Both ways round, through one evaluator each. */
LOOP_TEST(pairs_do_not_show, 2 * N_OF(PAIRS))
{
	const char *settings[] = {PAIRS[_i / 2].one, PAIRS[_i / 2].other};

	begin_pair(PAIRS[_i / 2].base);
	for (int i = 0; i < 2; i++)
		compare_with(settings[i ^ _i % 2]);
}

/* Orders of passes that have no name: they are known by their files. */
TEST(files_of_schedules_do_not_show)
{
	struct sc_schedule_shape shape = {
		.kind = SC_SCHED_ZB_2P, .pp = 4, .virtual_stages = 1, .micro_batches = 8};

	begin_pair("parallel.pp=4 training.micro_batch=1 training.global_batch=8");
	for (int i = 0; i < 2; i++) {
		char path[] = "/tmp/stepcast-XXXXXX", csv[40], text[80];
		FILE *file = fdopen(mkstemp(path), "w");
		struct sc_stage_map map;
		struct sc_passes passes;

		shape.times = (struct sc_pass_times){1, 1 + 2 * i, 1, 0.5, 1};
		sc_stage_map_init(&shape, &arena, &map);
		sc_passes_build(&shape, &map, &arena, &passes);
		sc_schedule_file_write(&passes, NULL, file);
		fclose(file);
		snprintf(csv, sizeof(csv), "%s.csv", path);
		ck_assert_int_eq(rename(path, csv), 0);
		snprintf(text, sizeof(text), "parallel.schedule=%s", csv);
		compare_with(text);
		remove(csv);
	}
}

/* Switches are a list, which a key has no room for. */
TEST(switches_do_not_show)
{
	struct sc_net_tier tier = {.nodes = 1};

	begin_pair("parallel.tp=16 training.global_batch=8 training.micro_batch=1");
	walk.config.cluster.tiers = (struct sc_structs){&tier, 1};
	for (int i = 0; i < 2; i++) {
		tier.oversubscription = 1 + 7 * i;
		compare_with("");
	}
}

/* A stage whose GPUs have links is faster than one of the same GPUs without: a floor that took the
 * first one's blocks for both would lie above the prediction. */
TEST(kinds_of_gpus_have_blocks_of_their_own)
{
	struct sc_gpu_nodes kinds[] = {{.gpu = "a100-pcie-40gb", .count = 1},
				       {.gpu = "a100-sxm-40gb", .count = 1}};
	struct answer answer;

	begin_pair("cluster.gpu=a100-pcie-40gb parallel.pp=2 parallel.tp=8 "
		   "training.global_batch=1 training.micro_batch=1");
	walk.config.cluster.nodes = (struct sc_structs){kinds, 2};
	ask(evaluator, &walk.config, true, &answer);
	ck_assert_msg(answer.rc == 0 && answer.floor_rc == 0, "%s", answer.err.text);
	ck_assert_double_le(answer.e->floor.iteration_ms, answer.e->prediction.iteration_ms);
}

/* Longer and longer sequences: the host is late for all passes first, then for some, then for none.
 */
LOOP_TEST(late_hosts_do_not_show, n_cases(8))
{
	static const char *const SCHEDULES[] = {"1f1b", "gpipe", "zb-h1", "zb-2p"};
	char text[64];

	begin_pair("parallel.pp=4 training.micro_batch=1 training.global_batch=24");
	set_all(&walk.config, _i / 4 ? "c3.policy.pp=serial" : "training.cuda_graphs=false");
	for (int seq = 64; seq <= 4096; seq += seq < 1024 ? 32 : 256) {
		snprintf(text, sizeof(text), "parallel.schedule=%s model.seq=%d", SCHEDULES[_i % 4],
			 seq);
		compare_with(text);
	}
}

/* False: the key has no number, or one that says there is none. */
static bool change_number(const struct key *key, void *object)
{
	void *at = (char *)object + key->offset;

	if (key->field && key->field->type == SC_F_BOOL)
		*(bool *)at = !*(bool *)at;
	else if (key->field && key->field->type == SC_F_DOUBLE && *(double *)at > 0)
		*(double *)at *= 0.75;
	else if (key->field && key->field->type == SC_F_INT && *(int64_t *)at > 1)
		*(int64_t *)at -= 1;
	else
		return false;
	return true;
}

static void check_request(const struct sc_request *request)
{
	struct answer warm, cold;

	evaluator->request = *request;
	ask_request(evaluator, false, &warm);
	cold.e = sc_evaluator_create(catalog);
	cold.e->request = *request;
	ask_request(cold.e, false, &cold);
	check_same(&warm, &cold);
	sc_evaluator_destroy(cold.e);
}

/* Fits and what-ifs change one number of a profile from prediction to prediction. */
LOOP_TEST(numbers_of_profiles_do_not_show, n_cases(8))
{
	const struct sc_field *const tables[] = {sc_device_fields, sc_software_fields};
	struct sc_request request;

	memset(&walk, 0, sizeof(walk));
	walk.opts = opts;
	walk.opts.brief = true;
	load_example((11 + 5 * _i) % find_examples(), &walk.config);
	ck_assert(is_legal(&walk.config));
	request = evaluator->request;
	check_request(&request);
	for (int t = 0; t < N_OF(tables); t++) {
		walk.keys.n = 0;
		find_keys(tables[t], (struct key){.path = ""}, &walk.keys);
		for (size_t i = 0; i < walk.keys.n; i++) {
			struct sc_request changed = request;

			snprintf(walk.trail, sizeof(walk.trail), "%d: %s", _i,
				 walk.keys.at[i].path);
			if (change_number(&walk.keys.at[i],
					  t ? (void *)&changed.software : (void *)&changed.device))
				check_request(&changed);
		}
	}
}
