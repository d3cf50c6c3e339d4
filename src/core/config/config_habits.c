/* Does what a stack does by habit where a request leaves it open: pieces of config in its profile;
 * how it interleaves, which tokens it pads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/config/config_priv.h"

enum { MAX_HABITS = 256, MAX_PIECE_VALUES = 32 };

/* ---- pieces of config in a profile ---- */

static const struct sc_name EITHER_NAMES[] = {{"false", 0}, {"true", 1}, {0}};
#define EITHER(member, text) \
	SC_FIELD_OF(ENUM, sc_when, member, EITHER_NAMES, text, .absent = SC_NOT_GIVEN)
static const struct sc_field WHEN_FIELDS[] = {
	EITHER(experts, "the model is a mixture of experts"),
	EITHER(latent, "its experts work on a latent width"),
	EITHER(dlrm, "the model is a DLRM"),
	EITHER(mla, "the model has latent attention"),
	EITHER(mamba, "the model has Mamba-2 layers"),
	EITHER(nvlink_domain, "an NVLink domain has more than a node"),
	SC_FIELD_OF(ENUM, sc_when, gpu_runs, sc_dtype_names, "every GPU has math of this type",
		    .absent = SC_NOT_GIVEN),
	SC_FIELD_OF(ENUM, sc_when, stored_as, sc_dtype_names, "type of the weights",
		    .absent = SC_NOT_GIVEN),
	SC_FIELD_OF(ENUM, sc_when, precision, sc_precision_names, "training.precision is that",
		    .absent = SC_NOT_GIVEN),
	SC_FIELD_IN(DOUBLE, sc_when, gpu_below_gib, 0, 1e5, "a GPU has less memory"),
	SC_FIELD_IN(INT, sc_when, gpus_above, 0, SC_MAX_GPUS, "the run has more GPUs"),
	SC_FIELD_IN(DOUBLE, sc_when, nic_gbit_s, 0, 1e5, "cluster.nic_gbit_s is given and that"),
	SC_FIELD(STR, sc_when, fabric, "cluster.fabric is that"),
	SC_FIELD(STR, sc_when, not_given, "a key that the request leaves open"),
	{0},
};

static bool is_given(const struct sc_request *req, const char *path)
{
	return sc_config_origin(&req->config, path) != NULL;
}

static bool is_mamba(enum sc_mixer mixer)
{
	return mixer == SC_MIX_MAMBA2;
}

static bool has_mixer(const struct sc_model *model, bool (*is)(enum sc_mixer))
{
	int kind = 0;

	while (kind < SC_N_LAYER_KINDS && !is(sc_model_kind(model, kind).mixer))
		kind++;
	return kind < SC_N_LAYER_KINDS;
}

static bool when_holds(const struct sc_request *req, const struct sc_when *when)
{
	return (when->experts < 0 || when->experts == sc_model_is_moe(&req->config.model)) &&
	       (when->latent < 0 || when->latent == (req->config.model.expert_latent > 0)) &&
	       (when->dlrm < 0 || when->dlrm == (req->config.model.family == SC_DLRM)) &&
	       (when->mla < 0 || when->mla == sc_model_is_mla(&req->config.model)) &&
	       (when->mamba < 0 || when->mamba == has_mixer(&req->config.model, is_mamba)) &&
	       (when->stored_as < 0 ||
		when->stored_as == (int)sc_storage_dtype(req->config.training.precision)) &&
	       (when->precision < 0 || when->precision == (int)req->config.training.precision) &&
	       (when->nvlink_domain < 0 ||
		when->nvlink_domain ==
			(req->config.cluster.scale_up_gpus > req->config.cluster.gpus_per_node)) &&
	       (when->gpu_runs < 0 || !sc_kind_without(req, (enum sc_dtype)when->gpu_runs)) &&
	       (when->gpu_below_gib <= 0 || req->device.hbm_gib < when->gpu_below_gib) &&
	       (when->gpus_above < 1 || req->config.gpus > when->gpus_above) &&
	       (when->nic_gbit_s <= 0 ||
		fabs(req->config.cluster.nic_gbit_s - when->nic_gbit_s) < 0.5) &&
	       (!when->fabric || (req->config.cluster.fabric &&
				  strcmp(when->fabric, req->config.cluster.fabric) == 0)) &&
	       !(when->not_given && is_given(req, when->not_given));
}

static enum sc_habit_stage stage_of(const char *path)
{
	return strcmp(path, "cluster.fabric") == 0        ? SC_HABIT_CLUSTER
	       : strncmp(path, "training.bf16_", 14) == 0 ? SC_HABIT_LAYERS
	       : strncmp(path, "parallel.", 9) == 0       ? SC_HABIT_SPLIT
	       : strcmp(path, "training.precision") == 0  ? SC_HABIT_PRECISION
	       : strncmp(path, "c3.policy.", 10) == 0     ? SC_HABIT_POLICY
							  : SC_HABIT_REST;
}

/* One piece: its condition, and a habit for each of its values, in a config of their own. */
static int load_piece(const struct sc_yaml *piece, struct sc_arena *arena, struct sc_habit *habits,
		      size_t *n, struct sc_err *err)
{
	struct sc_config *values = sc_arena_alloc(arena, sizeof(*values));
	struct sc_origin given[MAX_PIECE_VALUES];
	struct sc_yaml_opts opts = {.origins = given, .cap_origins = MAX_PIECE_VALUES};
	struct sc_yaml rest = *piece, **end = &rest.child;
	struct sc_err own = {.code = SC_OK};
	struct sc_when when;
	int rc = 0;

	sc_fields_init(WHEN_FIELDS, &when);
	for (const struct sc_yaml *child = piece->child; rc == 0 && child; child = child->next) {
		if (strcmp(child->key, "when") == 0) {
			rc = child->kind == SC_YAML_MAP
				     ? sc_yaml_decode(child, WHEN_FIELDS, &when, arena, NULL, err)
				     : sc_err_at(err, SC_EVALUE, SC_AT(child),
						 "when: expected a mapping");
			continue;
		}
		*end = sc_arena_alloc(arena, sizeof(**end));
		**end = *child;
		end = &(*end)->next;
	}
	*end = NULL;
	sc_config_init(values);
	if (rc == 0)
		rc = sc_yaml_decode(&rest, sc_config_fields, values, arena, &opts, err);
	for (size_t i = 0; rc == 0 && i < opts.n_origins; i++) {
		const struct sc_origin *at = &given[i < MAX_PIECE_VALUES ? i : 0];
		struct sc_field_place to = sc_field_find(sc_config_fields, at->path, arena);
		enum sc_habit_stage stage = stage_of(at->path);

		if (i == MAX_PIECE_VALUES || *n == MAX_HABITS)
			return sc_err_at(err, SC_ELIMIT, SC_AT(at), "config: too many values");
		const void *value =
			(const unsigned char *)values + to.base_offset + to.field->offset;
		struct sc_c3_choice choice;

		if (stage == SC_HABIT_POLICY &&
		    sc_c3_choice_parse(*(const char *const *)value, "", &choice, &own))
			return sc_err_at(err, own.code, SC_AT(at), "config: %s: %s", at->path,
					 own.text);
		/* A list is of one model's stages; its name is of any. */
		bool is_named = to.field->type == SC_F_INTS && to.field->names &&
				((const struct sc_ints *)value)->at[0] < 0;

		if ((to.field->type >= SC_F_STRUCT && !is_named) ||
		    strcmp(at->path, "c3.policy.all") == 0 ||
		    !(stage != SC_HABIT_REST || strncmp(at->path, "training.", 9) == 0 ||
		      strncmp(at->path, "sharding.", 9) == 0))
			return sc_err_at(
				err, SC_EUNSUPPORTED, SC_AT(at),
				"config: %.64s: a profile may give single values of parallel, "
				"training and sharding, c3.policy by family, and cluster.fabric",
				at->path);
		if (stage != SC_HABIT_REST && stage != SC_HABIT_LAYERS &&
		    (when.stored_as >= 0 || when.precision >= 0))
			return sc_err_at(err, SC_EUNSUPPORTED, SC_AT(at),
					 "config: %.64s cannot depend on %s", at->path,
					 when.precision >= 0
						 ? "precision, which may be a habit itself"
						 : "stored_as, which follows from the precision");
		if (stage != SC_HABIT_REST && stage != SC_HABIT_PRECISION &&
		    (when.nvlink_domain >= 0 || when.gpus_above > 0))
			return sc_err_at(
				err, SC_EUNSUPPORTED, SC_AT(at),
				"config: %.64s cannot depend on %s, which follows from the split",
				at->path, when.nvlink_domain >= 0 ? "nvlink_domain" : "gpus_above");
		habits[(*n)++] = (struct sc_habit){
			.when = when,
			.field = to.field,
			.offset = to.base_offset + to.field->offset,
			.value = value,
			.origin = *at,
			.stage = stage,
		};
	}
	return rc;
}

int sc_habits_load(struct sc_software *software, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_config_piece *lists[MAX_HABITS], *piece = software->config;
	struct sc_habit *habits = sc_arena_alloc(arena, MAX_HABITS * sizeof(*habits));
	size_t n_lists = 0, n = 0;
	int rc = 0;

	for (; piece && n_lists < MAX_HABITS; piece = piece->older)
		lists[n_lists++] = piece;
	while (rc == 0 && n_lists > 0) {
		const struct sc_yaml *list = lists[--n_lists]->list;

		if (list->kind != SC_YAML_SEQ)
			return sc_err_at(err, SC_EVALUE, SC_AT(list),
					 "config: expected a list of pieces of config");
		for (const struct sc_yaml *at = list->child; rc == 0 && at; at = at->next)
			rc = at->kind == SC_YAML_MAP
				     ? load_piece(at, arena, habits, &n, err)
				     : sc_err_at(
					       err, SC_EVALUE, SC_AT(at),
					       "config: expected a mapping, as {training: {...}}");
	}
	software->habits = (struct sc_structs){habits, n};
	return rc;
}

/* The last habit that fits, of those of one value. */
static const struct sc_habit *last_fit(const struct sc_request *req, size_t offset)
{
	const struct sc_habit *habits = req->software.habits.at;

	for (size_t i = req->software.habits.n; i-- > 0;)
		if (habits[i].offset == offset && when_holds(req, &habits[i].when))
			return &habits[i];
	return NULL;
}

const struct sc_habit *sc_habit_of(const struct sc_request *req, const char *path)
{
	const struct sc_habit *habits = req->software.habits.at;

	for (size_t i = 0; i < req->software.habits.n; i++)
		if (strcmp(habits[i].origin.path, path) == 0)
			return last_fit(req, habits[i].offset);
	return NULL;
}

const struct sc_habit *sc_habit_taken(const struct sc_request *req, const char *path)
{
	const struct sc_habit *habit = is_given(req, path) ? NULL : sc_habit_of(req, path);

	return habit && memcmp((const unsigned char *)&req->config + habit->offset, habit->value,
			       sc_field_bytes(habit->field)) == 0
		       ? habit
		       : NULL;
}

/* Says what a recipe of the software decides that changes much. */
static void warn_habit(struct sc_request *req, const struct sc_habit *habit)
{
	const char *path = habit->origin.path, *name;

	if (strcmp(path, "training.launch_blocking") == 0 && *(const bool *)habit->value)
		sc_warn(&req->warnings,
			"training.launch_blocking is not given; true is taken, as %s was run on so "
			"many GPUs of such a network; false lets the host run ahead",
			req->software.id);
	if (strcmp(path, "cluster.fabric") == 0) /* rates are told more often than networks */
		sc_warn(&req->warnings,
			"cluster.fabric is not given; NICs of %.0f Gbit/s are taken for %s, as "
			"published runs of %s had them",
			req->config.cluster.nic_gbit_s, req->config.cluster.fabric,
			req->software.id);
	if (strcmp(path, "training.recompute") != 0 && strcmp(path, "training.precision") != 0)
		return;
	name = sc_enum_name(habit->field->names, *(const int *)habit->value);
	if (!name || strcmp(name, "none") != 0)
		sc_warn(&req->warnings, "%s is not given; %s is taken, as %s's recipes do", path,
			name ? name : "a list", req->software.id);
}

void sc_habits_take(struct sc_request *req, enum sc_habit_stage stage)
{
	const struct sc_habit *habit = req->software.habits.at;

	for (size_t i = 0; i < req->software.habits.n; i++, habit++) {
		unsigned char *place = (unsigned char *)&req->config + habit->offset;
		/* Switches have no value that says "not given". */
		bool is_switch = habit->field->type == SC_F_BOOL ||
				 (habit->field->type == SC_F_FLAGS && habit->field->absent >= 0);

		if (habit->stage != (int)stage || last_fit(req, habit->offset) != habit ||
		    (is_switch ? is_given(req, habit->origin.path)
			       : !sc_field_is_absent(habit->field, place)))
			continue;
		memcpy(place, habit->value, sc_field_bytes(habit->field));
		warn_habit(req, habit);
	}
}

/* ---- what no single value says ---- */

/* Lengths of BERT's samples: exponential with this mean, cut at seq. Half of 512 is what MLPerf's
 * Wikipedia has (mlcommons/training, BERT reference: 254 tokens of 512 on average). */
#define MEAN_SAMPLE_TOKENS 320.0
enum { DEFAULT_LORA_RANK = 16 };

static double mean_fill(double seq, double bin_tokens)
{
	double tokens = MEAN_SAMPLE_TOKENS * -expm1(-seq / MEAN_SAMPLE_TOKENS);

	return fmin((tokens + bin_tokens / 2) / seq, 1);
}

/* A stack that batches samples by length leaves out most of their padding, unless told not to. */
static void batch_by_length(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	double bin = req->software.length_bin_tokens;
	double fill = mean_fill((double)req->config.model.seq, bin);

	if (is_given(req, "training.unpadded") || !(bin > 0) || fill >= 1 ||
	    !sc_model_is_transformer(&req->config.model) ||
	    sc_family_traits(req->config.model.family)->causal)
		return;
	tr->unpadded = true;
	if (tr->fill_fraction < 0)
		tr->fill_fraction = fill;
	sc_warn(&req->warnings,
		"%s batches samples by length: training.unpadded is taken with fill_fraction %.2f; "
		"unpadded: false pads them",
		req->software.id, tr->fill_fraction);
}

/* Padded samples are computed in full; those of a causal model are cut from one long text. */
static void resolve_fill(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	bool causal = sc_family_traits(req->config.model.family)->causal;

	batch_by_length(req);
	if (!tr->unpadded && tr->fill_fraction >= 0 && tr->fill_fraction < 1)
		sc_warn(&req->warnings,
			"training.fill_fraction has no effect without training.unpadded");
	if (!tr->unpadded)
		tr->fill_fraction = 1;
	if (tr->fill_fraction >= 0)
		return;
	tr->fill_fraction = causal ? 1 : mean_fill((double)req->config.model.seq, 0);
	if (causal)
		sc_warn(&req->warnings,
			"training.unpadded has no effect on a causal model's full samples; give "
			"training.fill_fraction if they are not full");
	else
		sc_warn(&req->warnings,
			"training.fill_fraction is not given; %.2f of every sample is taken to be "
			"tokens",
			tr->fill_fraction);
}

/* Fine-tuning packs short documents into a sample, and pretraining cuts samples from one text. */
static void resolve_documents(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	const int64_t seq = req->config.model.seq;

	if (tr->document_tokens < 0 && tr->trainable == SC_TRAIN_LORA)
		sc_warn(&req->warnings,
			"training.document_tokens is not given: each token attends to its whole sample, "
			"as if no documents were packed into one");
	else if (tr->document_tokens > seq)
		sc_warn(&req->warnings,
			"training.document_tokens has no effect: a sample has %lld tokens",
			(long long)seq);
	else if (tr->document_tokens > 0 && tr->document_tokens < seq &&
		 tr->attention == SC_ATT_UNFUSED)
		sc_warn(&req->warnings,
			"training.document_tokens saves no time with training.attention unfused: all "
			"scores are computed, and documents are a mask laid over them");
	else if (tr->document_tokens > 0 && tr->document_tokens < seq &&
		 has_mixer(&req->config.model, sc_mixer_is_sparse))
		sc_warn(&req->warnings,
			"training.document_tokens saves no time in layers of sparse attention, which are "
			"modelled over whole samples");
	if (tr->document_tokens < 0 || tr->document_tokens > seq)
		tr->document_tokens = seq;
}

static void resolve_optimizer(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	bool is_dlrm = req->config.model.family == SC_DLRM;
	enum sc_optimizer dense;

	if ((int)tr->optimizer == SC_NOT_GIVEN)
		tr->optimizer = is_dlrm ? SC_OPT_ROWWISE_ADAGRAD : SC_OPT_ADAM;
	/* A habit is of Adam: moments that an optimizer stores in its own way stay. */
	if (sc_habit_taken(req, "training.moment_bytes") &&
	    (tr->optimizer == SC_OPT_NONE ||
	     sc_optimizer_traits_of(tr->optimizer)->moment_bytes > 0))
		tr->moment_bytes = SC_NOT_GIVEN;
	dense = sc_optimizer_dense(tr->optimizer);
	if (is_dlrm || dense == tr->optimizer)
		return;
	sc_warn(&req->warnings, "training.optimizer %s is of embedding tables; %s is taken",
		sc_enum_name(sc_optimizer_names, (int)tr->optimizer),
		sc_enum_name(sc_optimizer_names, (int)dense));
	tr->optimizer = dense;
}

static void resolve_experts(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;

	if (!sc_model_is_moe(&req->config.model))
		return;
	if (tr->expert_imbalance < 0)
		tr->expert_imbalance = 1;
	if (req->software.balanced_in_turn && tr->routing == SC_ROUTING_BALANCED)
		tr->routing = SC_ROUTING_IN_TURN;
	/* Kernels that send a token once take no fixed capacity (Megatron Core,
	 * transformer_config.py). */
	if ((int)tr->moe_dispatcher == SC_NOT_GIVEN ||
	    (tr->routing == SC_ROUTING_DROPPED && sc_habit_taken(req, "training.moe_dispatcher")))
		tr->moe_dispatcher = SC_DISPATCH_ALL_TO_ALL;
}

/* FlashAttention-2 and cuDNN's kernels run from Ampere on. Before, PyTorch has a memory-efficient
 * one for whoever calls its scaled_dot_product_attention
 * (aten/native/transformers/cuda/sdp_utils.cpp); others have none (Transformer Engine,
 * get_attention_backend). */
static void resolve_attention(struct sc_request *req)
{
	enum { AMPERE = 80 };
	enum sc_attention *attention = &req->config.training.attention;
	const bool given = is_given(req, "training.attention");
	const struct sc_habit *habit = sc_habit_of(req, "training.attention");
	const bool calls_sdpa = habit && *(const int *)habit->value == SC_ATT_SDPA;
	const struct sc_device *older = NULL;

	if ((int)*attention == SC_NOT_GIVEN)
		*attention = calls_sdpa ? SC_ATT_SDPA : SC_ATT_FLASH;
	for (size_t k = 0; k < sc_request_n_kinds(req); k++) {
		const struct sc_device *device = sc_request_device(req, k);

		if (device->cuda_capability > 0 && device->cuda_capability < AMPERE)
			older = device;
	}
	if (!older || *attention != SC_ATT_FLASH || calls_sdpa ||
	    !sc_model_is_transformer(&req->config.model))
		return;
	if (!given)
		*attention = SC_ATT_UNFUSED;
	sc_warn(&req->warnings,
		given ? "training.attention flash does not run on %s, before Ampere: %s falls back to "
			"unfused, which takes longer"
		      : "training.attention is not given: unfused is taken, as on %s, before Ampere, %s "
			"has no fused kernel",
		older->id, req->software.id);
}

void sc_config_fill_options(struct sc_request *req)
{
	struct sc_training *tr = &req->config.training;
	struct sc_sharding_plan *plan = &req->config.sharding;

	if (plan->plan && sc_habit_taken(req, "sharding.planner"))
		plan->planner = SC_PLANNER_NONE;
	else if (!plan->plan && req->config.model.family == SC_DLRM &&
		 plan->planner == SC_PLANNER_NONE)
		plan->planner = SC_PLANNER_STEPCAST;
	resolve_optimizer(req);
	resolve_fill(req);
	resolve_experts(req);
	if (tr->trainable == SC_TRAIN_LORA) {
		if (tr->lora_rank == SC_NOT_GIVEN)
			tr->lora_rank = DEFAULT_LORA_RANK;
		if ((int)tr->lora_targets == SC_NOT_GIVEN)
			tr->lora_targets = SC_LORA_ATTENTION;
	}
	if (tr->recompute == SC_NOT_GIVEN)
		tr->recompute = SC_RECOMPUTE_NONE;
	resolve_attention(req);
	if (sc_model_is_transformer(&req->config.model))
		resolve_documents(req);
	if ((int)tr->fp8_recipe == SC_NOT_GIVEN)
		tr->fp8_recipe = SC_FP8_DELAYED;
	if (tr->cuda_graphs & SC_GRAPH_FULL)
		tr->cuda_graphs = 1;
	if (tr->launch_blocking)
		req->software.host_waits = true;
}

bool sc_recomputes(const struct sc_request *request, int module)
{
	int mode = request->config.training.recompute;

	if (mode == SC_RECOMPUTE_SELECTIVE && request->software.selective == SC_SELECTIVE_ATTENTION)
		mode = SC_RECOMPUTE_CORE_ATTN;
	return mode >= SC_FLAG && (mode & module);
}

double sc_recompute_frac(const struct sc_request *request)
{
	double layers = (double)request->config.model.layers / (double)request->config.parallel.pp;
	int64_t given = request->config.training.recompute_layers;

	return given < 1 || (double)given >= layers ? 1 : (double)given / layers;
}

/* How torch.distributed.pipelining, Megatron's FSDP and DeepSpeed do it is in their profiles. */
struct sc_sharding_rule sc_sharding_rule(const struct sc_request *request)
{
	const struct sc_software *sw = &request->software;
	enum sc_zero sharding = request->config.parallel.sharding;
	const struct sc_parallel *par = &request->config.parallel;
	bool once = par->pp > 1 && sw->sharded_pipeline == SC_SHARDED_ONCE;
	double ranks = (double)(par->dp * par->cp);
	double copies = par->shard_ranks > 0 ? ranks / (double)par->shard_ranks : 1;
	double experts_on = (double)((par->etp > 0 ? par->etp : par->tp) * par->ep);

	return (struct sc_sharding_rule){
		.states = sharding != SC_ZERO_NONE,
		.gradients = sharding >= SC_ZERO2,
		.weights = sharding >= SC_ZERO3,
		.scatters =
			sharding >= SC_ZERO2 || (sharding == SC_ZERO1 && sw->distributed_optimizer),
		.each = !once,
		.ranks = ranks / copies,
		.expert_ranks = ranks * (double)par->tp / experts_on / copies,
	};
}

enum sc_muon_sharding sc_muon_sharding(const struct sc_request *request)
{
	const enum sc_muon_sharding asked = request->config.training.muon_sharding;

	if (request->config.training.optimizer != SC_OPT_MUON)
		return SC_MUON_NONE;
	if ((int)asked != SC_NOT_GIVEN)
		return asked;
	return request->config.parallel.sharding == SC_ZERO_NONE ? SC_MUON_NONE : SC_MUON_OWNER;
}
