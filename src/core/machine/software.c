/* Software files: the keys. Every number must be given in the file or its defaults; a switch that
 * is not given is off. */
#include "core/machine/software.h"

#include "core/profile/profile_priv.h"

#define NUMBER(struct_, member, lo, hi, absent_, ...) \
	SC_FIELD_IN(DOUBLE, struct_, member, lo, hi, __VA_ARGS__, .absent = absent_)
#define DOUBLE_OR(member, lo, hi, absent_, text) NUMBER(sc_software, member, lo, hi, absent_, text)
#define DOUBLE(member, lo, hi, text) DOUBLE_OR(member, lo, hi, SC_REQUIRED, text)
#define US(member, text) DOUBLE(member, 0, 1e9, text)
#define BOOL(member, text) SC_FIELD(BOOL, sc_software, member, text)
#define ENUM(member, table, text) SC_FIELD_OF(ENUM, sc_software, member, table, text)

const struct sc_name sc_fp8_recipe_names[] = {
	{"delayed", SC_FP8_DELAYED},
	{"current", SC_FP8_CURRENT},
	{"rowwise", SC_FP8_ROWWISE},
	{"blockwise", SC_FP8_BLOCKWISE},
	{0},
};
const struct sc_name sc_dispatcher_names[] = {
	{"all_to_all", SC_DISPATCH_ALL_TO_ALL},
	{"all_gather", SC_DISPATCH_ALL_GATHER},
	{"deepep", SC_DISPATCH_DEEPEP},
	{"hybridep", SC_DISPATCH_HYBRIDEP},
	{0},
};
static const struct sc_name STACK_SIGN_NAMES[] = {
	{"any", SC_STACK_ANY},
	{"transformer", SC_STACK_TRANSFORMER},
	{"sharded", SC_STACK_SHARDED},
	{"fp8", SC_STACK_FP8},
	{"fp16", SC_STACK_FP16},
	{"unpadded", SC_STACK_UNPADDED},
	{"amp", SC_STACK_AMP},
	{"unties", SC_STACK_UNTIES},
	{0},
};
static const struct sc_field RELEASE_FIELDS[] = {
	SC_FIELD_OF(
		ENUM, sc_release, sign, STACK_SIGN_NAMES,
		"for Transformers: all; with ZeRO-2, ZeRO-3 or FSDP; with products of 8 bits or "
		"fewer; in fp16, tf32 or fp32; with training.unpadded and no fill_fraction; with autocast; "
		"whose embeddings are untied, without a version"),
	SC_FIELD_IN(INT, sc_release, capability, 0, 999,
		    "for GPUs of that CUDA capability and later, 90 = 9.0"),
	SC_FIELD(STR, sc_release, version, "training.software_version begins so"),
	SC_FIELD(STR, sc_release, profile, "a file of configs/software", .required = true),
	{0},
};
const struct sc_name sc_schedule_set_names[] = {
	{"all", 1},
	{"gpipe", SC_FLAG},
	{"1f1b", SC_FLAG << 1},
	{"interleaved", SC_FLAG << 2},
	{"breadth-first", SC_FLAG << 3},
	{"zb-h1", SC_FLAG << 4},
	{"zb-h2", SC_FLAG << 5},
	{"zb-1p", SC_FLAG << 6},
	{"zb-2p", SC_FLAG << 7},
	{"zb-v", SC_FLAG << 8},
	{"v-half", SC_FLAG << 9},
	{"v-min", SC_FLAG << 10},
	{"chimera", SC_FLAG << 11},
	{"hanayo", SC_FLAG << 12},
	{"dualpipe", SC_FLAG << 13},
	{"dualpipev", SC_FLAG << 14},
	{"gems", SC_FLAG << 15},
	{0},
};
const struct sc_name sc_graph_names[] = {
	{"false", 0},
	{"true", 1},
	{"full_iteration", SC_GRAPH_FULL},
	{"attn", SC_GRAPH_ATTN},
	{"mlp", SC_GRAPH_MLP},
	{"moe", SC_GRAPH_MOE},
	{"moe_router", SC_GRAPH_ROUTER},
	{"moe_preprocess", SC_GRAPH_PREPROCESS},
	{0},
};
static const struct sc_name GRAD_SYNC_NAMES[] = {
	{"after", SC_GRAD_AFTER},
	{"overlap", SC_GRAD_OVERLAP},
	{"overlap_unsharded", SC_GRAD_OVERLAP_UNSHARDED},
	{"by_layer", SC_GRAD_BY_LAYER},
	{0},
};
static const struct sc_name SHARDED_PIPELINE_NAMES[] = {
	{"once", SC_SHARDED_ONCE},
	{"each", SC_SHARDED_EACH},
	{"refused", SC_SHARDED_REFUSED},
	{0},
};
static const struct sc_name SELECTIVE_NAMES[] = {
	{"attention", SC_SELECTIVE_ATTENTION},
	{"ops", SC_SELECTIVE_OPS},
	{0},
};
static const struct sc_field DLRM_FIELDS[] = {
	SC_FIELD(BOOL, sc_dlrm_habits, partial_sums,
		 "row slices send partial sums, added up within a node"),
	SC_FIELD(BOOL, sc_dlrm_habits, index_exchange, "indices exchanged by table"),
	SC_FIELD(BOOL, sc_dlrm_habits, embedding_stream, "beside the bottom MLP"),
	SC_FIELD(BOOL, sc_dlrm_habits, one_rank_bottom,
		 "rank 0 runs the bottom MLP for all; of 5 ranks or more it has no tables"),
	SC_FIELD(BOOL, sc_dlrm_habits, fused_mlp, "bias and activation ride on the GEMMs"),
	SC_FIELD_OF(ENUM, sc_dlrm_habits, embedding_kernel, sc_embedding_kernel_names,
		    "whose kernels look rows up and step them; default tbe, FBGEMM's"),
	NUMBER(sc_dlrm_habits, embedding_eff, 0.01, 10, 1,
	       "speed of embedding kernels over the device's; default 1"),
	NUMBER(sc_dlrm_habits, host_sample_us, 0, 1e9, 0,
	       "CPU time of the input pipeline a sample of a rank, us"),
	NUMBER(sc_dlrm_habits, table_us, 0, 1e9, 0,
	       "GPU time a table and step, us; 0 = one kernel for all"),
	NUMBER(sc_dlrm_habits, output_us, 0, 1e9, 0,
	       "GPU time a vector that is exchanged, where tables are not fused, us"),
	NUMBER(sc_dlrm_habits, jagged_eff, 0.01, 10, 1,
	       "speed of attention over a sample's sequence over fused attention's; default 1"),
	{0},
};
const struct sc_field sc_software_fields[] = {
	SC_PROFILE_KEYS,
	SC_FIELD(STR, sc_software, id, "the file's stem"),
	{.key = "config",
	 .type = SC_F_IGNORE,
	 .help = "list of pieces of config under a request's: {when: {...}, training: {...}}"},
	SC_FIELD_LIST(sc_software, releases, RELEASE_FIELDS, sc_release,
		      "releases with a profile of their own"),
	ENUM(grad_sync, GRAD_SYNC_NAMES,
	     "data-parallel reduction after or during backward; overlap_unsharded: during it, but after "
	     "it where optimizer states are sharded; by_layer: during it, and each bucket's weights "
	     "before its next forward (family layers)"),
	DOUBLE(bucket_mib, 0, 1e6, "gradient bucket, MiB; 0 = one per dtype"),
	BOOL(gather_fp8,
	     "sharded weights and inputs of tensor-parallel layers are gathered in fp8"),
	BOOL(gather_ahead, "sharded weights gathered one layer ahead"),
	ENUM(sharded_pipeline, SHARDED_PIPELINE_NAMES,
	     "ZeRO-2, -3 and FSDP with stages: gather and reduce once, each micro-batch, or refused"),
	DOUBLE(gathers_per_layer, 1, 1000, "collectives a sharded layer's weights take"),
	BOOL(fused_chains,
	     "one kernel each: bias, dropout, residual; scale, mask, softmax; rotary embeddings"),
	BOOL(norms_apart, "no norm is fused with the product behind it"),
	BOOL(fused_loss, "one kernel"),
	BOOL(keeps_expert_outputs, "experts' outputs are multiplied by the router's probabilities"),
	BOOL(balanced_in_turn, "training.routing balanced sends tokens to experts in turn"),
	BOOL(weighs_inputs,
	     "experts' inputs are multiplied by the router's probabilities, eagerly, and stay"),
	BOOL(keeps_gate,
	     "a gated activation's own output stays for its product with the other half"),
	BOOL(keeps_gathered,
	     "sequence parallelism: what a region's products read stays gathered until backward"),
	BOOL(fused_fp8_cast, "casts ride on the kernels before them"),
	BOOL(casts_apart, "mxfp8: a tensor is read for each of its two copies, weights every time"),
	BOOL(lora_recipe, "LoRA: context parallelism exchanges heads"),
	BOOL(mx_fp8_attention,
	     "flash attention in fp8 where GEMMs are mxfp8, of LoRA fp8, or nvfp4 on one rank"),
	BOOL(mlm_gather, "masked-language-model head on masked positions only"),
	DOUBLE_OR(elementwise_factor, 0.1, 20, 1, "bytes of its elementwise kernels; default 1"),
	DOUBLE_OR(attention_eff, 0.01, 2, 1,
		  "fused attention kernels over the device's; default 1"),
	DOUBLE_OR(attention_eff_hopper, 0.01, 2, 1, "the same from Hopper on; default 1"),
	DOUBLE_OR(link_eff, 0.001, 1, 1, "share of the links' rate reached; default 1"),
	DOUBLE_OR(net_eff, 0.001, 1, 1, "share of the network's rate reached; default 1"),
	BOOL(recompute_early_stop, "recomputation stops before the last matrix product"),
	BOOL(interleaves, "virtual_stages not given: chunks of two layers"),
	DOUBLE_OR(comm_latency_us, 0, 1e9, 0, "added to every collective's latency, us; default 0"),
	DOUBLE_OR(length_bin_tokens, 0, 1e9, 0, "samples are batched by length, in bins; 0 = not"),
	ENUM(selective, SELECTIVE_NAMES, "what selective recomputation runs again"),
	BOOL(fused_unscale, "of unsharded weights, the update unscales 16-bit gradients"),
	BOOL(allow_tf32, "an optimizer's products of fp32 matrices are TF32"),
	BOOL(blocking_checkpoints, "kernels wait for activations that go to the host, and back"),
	BOOL(distributed_optimizer, "reduce-scatter and all-gather"),
	BOOL(fused_grad_accumulation, "the weight-gradient GEMM adds"),
	BOOL(tp_dgrad_overlap, "backward tensor-parallel collectives hide"),
	BOOL(pads_experts, "rows of quantized experts are padded by copies"),
	DOUBLE_OR(host_expert_us, 0, 1e6, 0, "CPU time for a product of a grouped GEMM, us"),
	DOUBLE_OR(host_sync_us, 0, 1e6, 0, "until experts' numbers of tokens are read; 0 = not"),
	DOUBLE_OR(tp_scatter_sms, 0, 1000, 0,
		  "SMs that reduce pieces of a decomposed product; default copy engines"),
	BOOL(fills_stages,
	     "a balanced stage ends at its share of the work; else the longest is as short as can be"),
	BOOL(scatter_gather_p2p, "pipeline transfers split over tp ranks"),
	BOOL(pad_vocab, "vocabulary padded to 128 tp"),
	BOOL(host_waits, "after each layer, or a DLRM's step, until the GPU has done it"),
	US(host_op_us, "CPU time per kernel, us"),
	US(host_layer_us, "CPU time per layer and pass beside launches, us"),
	US(host_micro_batch_us, "CPU time per micro-batch and stage, us"),
	US(host_step_us, "CPU time per iteration, us"),
	US(comm_host_us,
	   "CPU time of a collective, us; of a tensor-parallel one for each other rank, at most 7"),
	DOUBLE_OR(cpu_step_frac, 0.001, 1, 0.25,
		  "optimizer on the CPU, over the bandwidth of the host's memory"),
	DOUBLE_OR(cpu_step_gbps, 0, 1e4, 19,
		  "and at most so much a process, 1e9 bytes/s; 0 = no limit"),
	DOUBLE(reserve_gib, 0, 1e4, "context, buffers and allocator slack, GiB a GPU"),
	DOUBLE_OR(loss_chunks, 1, 1e4, 1,
		  "parts of a sequence whose logits and loss follow one another; default 1"),
	DOUBLE_OR(loss_copies, 0, 16, 0, "fp32 copies of the logits; default 1 if fused, else 2"),
	DOUBLE_OR(activation_factor, 0.1, 20, 1,
		  "bytes that layers keep for backward over those counted; default 1"),
	DOUBLE_OR(reserve_frac, 0, 2, 0, "allocator slack, of the tensors' bytes; default 0"),
	DOUBLE_OR(level, 0.01, 100, 1, "time of everything over what is predicted; default 1"),
	DOUBLE_OR(band_ln, 0, 7, 0,
		  "half-width of the 80 % band, in logs; 0 = by configs/likeness.csv"),
	SC_FIELD_MAP(sc_software, dlrm, DLRM_FIELDS, "recommendation models"),
	{0},
};

/* Releases are the file's own: a profile that another one chooses must not choose again. */
static void take_config(const struct sc_yaml *file, void *object, struct sc_arena *arena)
{
	struct sc_software *software = object;
	const struct sc_yaml *list = sc_yaml_get(file, "config");
	struct sc_config_piece *piece;

	if (!sc_yaml_get(file, "releases"))
		software->releases = (struct sc_structs){NULL, 0};
	if (!list)
		return;
	piece = sc_arena_alloc(arena, sizeof(*piece));
	*piece = (struct sc_config_piece){list, software->config};
	software->config = piece;
}

const struct sc_profile_kind sc_software_kind = {.folder = "software",
						 .noun = "software",
						 .fields = sc_software_fields,
						 .take = take_config};

int sc_software_load(const char *id, struct sc_arena *arena, struct sc_software *out,
		     struct sc_err *err)
{
	struct sc_software software = {.id = NULL};
	int rc = sc_profile_load(&sc_software_kind, id, &software, arena, err);

	if (rc == 0)
		*out = software;
	return rc;
}
