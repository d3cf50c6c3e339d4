/* The keys of a request (docs/keys.md): one table a section. */
#include <float.h>

#include "core/config/config_priv.h"
#include "core/config/config_schedule.h"
#include "core/embedding/reuse.h"

/* The conditions without which a key has no effect, and the source of a value not given. */
#define NEEDS(bits) .needs = (bits)
#define FROM(text) .from = (text)
#define FROM_UNLESS(plain_, text) .from = (text), .plain = (plain_)
/* The last arguments, as NEEDS or FROM, may be left out. */
#define NUMBER(type_, struct_, member, lo, hi, ...) \
	SC_FIELD_IN(type_, struct_, member, lo, hi, __VA_ARGS__, .absent = SC_NOT_GIVEN)
#define INT(struct_, member, lo, hi, ...) NUMBER(INT, struct_, member, lo, hi, __VA_ARGS__)
#define INTS(struct_, member, lo, hi, ...) NUMBER(INTS, struct_, member, lo, hi, __VA_ARGS__)
#define DOUBLE(struct_, member, lo, hi, ...) NUMBER(DOUBLE, struct_, member, lo, hi, __VA_ARGS__)
#define STR(struct_, member, ...) SC_FIELD(STR, struct_, member, __VA_ARGS__)
#define BOOL(struct_, member, ...) SC_FIELD(BOOL, struct_, member, __VA_ARGS__)
#define NAMED(type_, struct_, member, table, absent_, ...) \
	SC_FIELD_OF(type_, struct_, member, table, __VA_ARGS__, .absent = absent_)
#define ENUM(struct_, member, table, ...) \
	NAMED(ENUM, struct_, member, table, SC_NOT_GIVEN, __VA_ARGS__)
#define ENUM_OR(struct_, member, table, absent_, ...) \
	NAMED(ENUM, struct_, member, table, absent_, __VA_ARGS__)
#define FLAGS(struct_, member, table, absent_, ...) \
	NAMED(FLAGS, struct_, member, table, absent_, __VA_ARGS__)
#define SECTION(member, table, is_file, text) \
	SC_FIELD_MAP(sc_config, member, table, text, .may_be_file = is_file)

_Static_assert(sizeof(enum sc_family) == sizeof(int) && sizeof(enum sc_precision) == sizeof(int),
	       "SC_F_ENUM writes an int");

/* The limits keep every product that the models form below 2^53 (config_check.c). */
enum {
	MAX_PER_NODE = 1024,
	MAX_SPLIT = 4096,
	MAX_VIRTUAL = 64,
	MAX_LAYERS = 10000,
	MAX_HIDDEN = 1 << 20,
	MAX_HEADS = 1 << 16,
	MAX_STATE = 1 << 12,
	MAX_FFN = 1 << 23,
	MAX_VOCAB = 1 << 26,
	MAX_SEQ = 1 << 24,
	MAX_EXPERTS = 1 << 16,
	MAX_BATCH = 1 << 26,
};

static const struct sc_name LINKS_NAMES[] = {
	{"usual", SC_LINKS_USUAL},
	{"switch", SC_LINKS_SWITCH},
	{"mesh", SC_LINKS_MESH},
	{"cube_mesh", SC_LINKS_CUBE_MESH},
	{0},
};
static const struct sc_name SHARDING_NAMES[] = {
	{"none", SC_ZERO_NONE}, {"zero1", SC_ZERO1}, {"zero2", SC_ZERO2},
	{"zero3", SC_ZERO3},    {"fsdp", SC_FSDP},   {0},
};
const struct sc_name sc_precision_names[] = {
	{"fp32", SC_P_FP32},
	{"tf32", SC_P_TF32},
	{"fp16", SC_P_FP16},
	{"bf16", SC_P_BF16},
	{"fp8", SC_P_FP8},
	{"amp_fp16", SC_P_AMP_FP16},
	{"amp_bf16", SC_P_AMP_BF16},
	{"mxfp8", SC_P_MXFP8},
	{"nvfp4", SC_P_NVFP4},
	{"mxfp4", SC_P_MXFP4},
	{0},
};
const struct sc_name sc_recompute_names[] = {
	{"none", SC_RECOMPUTE_NONE},
	{"selective", SC_RECOMPUTE_SELECTIVE},
	{"full", SC_RECOMPUTE_FULL},
	{"core_attn", SC_RECOMPUTE_CORE_ATTN},
	{"layernorm", SC_RECOMPUTE_NORMS},
	{"mla_up_proj", SC_RECOMPUTE_MLA_UP},
	{"mlp", SC_RECOMPUTE_MLP},
	{"moe", SC_RECOMPUTE_MOE},
	{"moe_act", SC_RECOMPUTE_MOE_ACT},
	{"shared_experts", SC_RECOMPUTE_SHARED_EXPERTS},
	{"mlp_act", SC_RECOMPUTE_MLP_ACT},
	{"dropout", SC_RECOMPUTE_DROPOUT},
	{0},
};
static const struct sc_name ROUTING_NAMES[] = {
	{"balanced", SC_ROUTING_BALANCED},
	{"in_turn", SC_ROUTING_IN_TURN},
	{"dropped", SC_ROUTING_DROPPED},
	{"natural", SC_ROUTING_NATURAL},
	{0},
};
static const struct sc_name TIER_NAMES[] = {
	{"none", SC_TIER_NONE},
	{"cpu", SC_TIER_CPU},
	{"nvme", SC_TIER_NVME},
	{0},
};
static const struct sc_name VOCAB_STAGES_NAMES[] = {
	{"none", SC_VOCAB_STAGES_NONE},
	{"vocab-1", SC_VOCAB_1},
	{"vocab-2", SC_VOCAB_2},
	{"interlaced", SC_VOCAB_INTERLACED},
	{0},
};
static const struct sc_name BALANCED_NAMES[] = {{"balanced", SC_STAGES_BALANCED}, {0}};
static const struct sc_name VALIDATION_NAMES[] = {{"before", 0}, {"after", 1}, {0}};
static const struct sc_name ATTENTION_NAMES[] = {
	{"flash", SC_ATT_FLASH},
	{"unfused", SC_ATT_UNFUSED},
	{"sdpa", SC_ATT_SDPA},
	{0},
};
static const struct sc_name TRAINABLE_NAMES[] = {
	{"all", SC_TRAIN_ALL},
	{"lora", SC_TRAIN_LORA},
	{0},
};

static const struct sc_name LORA_TARGET_NAMES[] = {
	{"attention", SC_LORA_ATTENTION},
	{"all", SC_LORA_ALL},
	{0},
};
static const struct sc_name INTERACTION_NAMES[] = {
	{"dot", SC_INTERACT_DOT},
	{"cat", SC_INTERACT_CAT},
	{"dcnv2", SC_INTERACT_DCNV2},
	{0},
};
static const struct sc_name BOOL_NAMES[] = {{"false", 0}, {"true", 1}, {0}};

#define MAX_NODE_GIB 1e7
#define MAX_GPU_GIB 1e4
static const struct sc_field NODE_KIND_FIELDS[] = {
	SC_FIELD(STR, sc_gpu_nodes, gpu, "device id: a file of configs/devices", .required = true),
	SC_FIELD_IN(INT, sc_gpu_nodes, count, 1, SC_MAX_GPUS, "nodes of gpus_per_node such GPUs",
		    .required = true),
	{0},
};
#define RATES(struct_, member, text) SC_FIELD_IN(DOUBLES, struct_, member, 0, 1e6, text)
static const struct sc_field TORUS_FIELDS[] = {
	INTS(sc_torus, dims, 1, SC_MAX_GPUS, "GPUs along each dimension, the innermost first"),
	RATES(sc_torus, link_gbps, "out of a GPU along each, all links, 1e9 bytes/s"),
	RATES(sc_torus, hop_us, "from one GPU to the next along each, us; default 0"),
	DOUBLE(sc_torus, link_eff, 0.01, 1, "share of link_gbps that packets leave; default 1"),
	DOUBLE(sc_torus, bus_gbps, 1, 1e6,
	       "between a GPU and its network interface, 1e9 bytes/s; default: no limit"),
	DOUBLE(sc_torus, sm_gbps, 0.01, 1e6, "that one SM moves, 1e9 bytes/s; default: no limit"),
	DOUBLE(sc_torus, engine_sram_mib, 0.01, 1e6,
	       "of an offload engine, for what is in flight; default: no limit"),
	{0},
};
static const struct sc_field TIER_FIELDS[] = {
	SC_FIELD_IN(INT, sc_net_tier, nodes, 1, SC_MAX_GPUS,
		    "hosts below one switch, or in one group of a dragonfly", .required = true),
	SC_FIELD_IN(
		DOUBLE, sc_net_tier, oversubscription, 1, 1e4,
		"rate that comes up to the switch over that of its uplinks; 1: not oversubscribed",
		.required = true),
	{0},
};
static const struct sc_field ALGORITHM_FIELDS[] = {
	STR(sc_algorithm_refs, all_reduce,
	    "of all-reduces: an algorithm file (MSCCL's XML), or ring, tree, nvls, collnet, symmetric, hierarchical"),
	STR(sc_algorithm_refs, all_gather,
	    "of all-gathers: a file, or ring, pat, symmetric, copy_engine, hierarchical"),
	STR(sc_algorithm_refs, reduce_scatter,
	    "of reduce-scatters: a file, or ring, pat, symmetric, hierarchical"),
	STR(sc_algorithm_refs, all_to_all, "of all-to-alls: a file, or copy_engine, hierarchical"),
	{0},
};
static const struct sc_field CLUSTER_FIELDS[] = {
	STR(sc_cluster, gpu, "device id: a file of configs/devices", FROM("the first of nodes")),
	SC_FIELD_LIST(sc_cluster, nodes, NODE_KIND_FIELDS, sc_gpu_nodes,
		      "mixed clusters: kinds of nodes, in rank order"),
	INT(sc_cluster, gpus_per_node, 1, MAX_PER_NODE, "default: the GPU's usual node",
	    FROM("usual node of the GPU")),
	INT(sc_cluster, nics_per_node, 0, MAX_PER_NODE, "0 is fine on one node",
	    FROM("usual node of the GPU")),
	DOUBLE(sc_cluster, nic_gbit_s, 0, 1e5, "one NIC, Gbit/s", FROM("usual node of the GPU")),
	INT(sc_cluster, scale_up_gpus, 1, SC_MAX_GPUS,
	    "GPUs in one NVLink domain, of each of which a job takes the same part if it can: of 72, "
	    "1,024 GPUs take 64; default gpus_per_node",
	    FROM("default: gpus_per_node")),
	DOUBLE(sc_cluster, nic_latency_us, 0, 1e5, "port to port, us; default: the fabric's"),
	DOUBLE(sc_cluster, progress_us, 0, 1e6,
	       "until a thread that moves data between nodes gets its turn on cores that launch kernels, too, us: "
	       "tensor-parallel collectives wait for two turns a hop between nodes, and where stages send over "
	       "the network for one of each rank; default: such threads have cores of their own"),
	DOUBLE(sc_cluster, link_gbps, 0, 1e6,
	       "per GPU, one direction, 1e9 bytes/s; default: the GPU's"),
	ENUM_OR(sc_cluster, links, LINKS_NAMES, SC_LINKS_USUAL,
		"how GPUs of one NVLink domain are wired: switch, mesh (all pairs), cube_mesh; default: as the "
		"GPU's boards are"),
	STR(sc_cluster, topology,
	    "a node's wiring: NCCL's topology XML, what nvidia-smi topo -m or rocm-smi --showtopo prints, or "
	    "ASTRA-sim's network YAML"),
	BOOL(sc_cluster, sharp, "the network's switches add (SHARP); default: false"),
	SC_FIELD_LIST(
		sc_cluster, tiers, TIER_FIELDS, sc_net_tier,
		"switches between nodes, from the leaves up; default: nothing is oversubscribed"),
	STR(sc_cluster, fabric,
	    "infiniband, ethernet, efa, omni-path, slingshot; or a file of configs/fabrics"),
	DOUBLE(sc_cluster, host_memory_gib, 0, MAX_NODE_GIB,
	       "of a node, for embedding tables and training.offload; default: 128 for each of its GPUs in use",
	       FROM("usual memory for each GPU")),
	DOUBLE(sc_cluster, ssd_gib, 0, MAX_NODE_GIB,
	       "of a node, for embedding tables and training.offload; default: no table on SSD"),
	DOUBLE(sc_cluster, host_link_gbps, 0.1, 1e6,
	       "between a GPU and its host, one direction, 1e9 bytes/s; default: 0.8 of the slot",
	       FROM("the device")),
	INT(sc_cluster, host_link_gpus, 1, MAX_PER_NODE,
	    "GPUs that share a link to the host; default 1"),
	DOUBLE(sc_cluster, host_memory_gbps, 0.1, 1e6, "of a node, read and written, 1e9 bytes/s",
	       FROM("the device's usual node")),
	DOUBLE(sc_cluster, ssd_read_gbps, 0.01, 1e6, "of a node, 1e9 bytes/s"),
	DOUBLE(sc_cluster, ssd_write_gbps, 0.01, 1e6, "of a node, 1e9 bytes/s"),
	DOUBLE(sc_cluster, price_usd_gpu_hour, 0, 1e6, "of one GPU; costs are reported with it"),
	SC_FIELD_MAP(sc_cluster, torus, TORUS_FIELDS,
		     "GPUs in a torus of rings, in place of nodes"),
	SC_FIELD_MAP(
		sc_cluster, algorithms, ALGORITHM_FIELDS,
		"files that decide collectives between as many ranks as they have GPUs, of sizes from minBytes to "
		"maxBytes, or names of the library's algorithms; default: the library's choice"),
	{0},
};
#define MAX_POOLING 1e6
static const struct sc_field TABLE_FIELDS[] = {
	STR(sc_table, name, "default: table_0, table_1 ..."),
	SC_FIELD_IN(INT, sc_table, rows, 1, SC_MAX_TABLE_ROWS, "entries", .required = true),
	SC_FIELD_IN(INT, sc_table, dim, 1, SC_MAX_TABLE_DIM, "elements of an entry",
		    .required = true),
	SC_FIELD_IN(DOUBLE, sc_table, pooling, 0, MAX_POOLING,
		    "lookups of a sample and feature; default 1"),
	SC_FIELD_IN(INT, sc_table, count, 1, SC_MAX_TABLES, "tables alike; default 1"),
	SC_FIELD_IN(INT, sc_table, features, 1, 1000, "features that share it; default 1"),
	ENUM_OR(sc_table, storage, sc_storage_names, 0,
		"type of the weights; default: the software's"),
	BOOL(sc_table, weighted, "lookups have weights"),
	BOOL(sc_table, sequence, "lookups are not pooled"),
	SC_FIELD_MAP(sc_table, reuse, sc_reuse_fields,
		     "how often rows come back; default: reuse/default.yaml", .may_be_file = true),
	{0},
};
#define MAX_ROW 1e18
#define ROW(name, ...) SC_FIELD_IN(DOUBLE, sc_layer_row, name, 0, MAX_ROW, __VA_ARGS__)
const struct sc_field sc_layer_row_fields[] = {
	SC_FIELD(STR, sc_layer_row, name, "of the layer", .required = true),
	ROW(flop, "forward, of one sample", .required = true),
	ROW(bytes, "activations read and written forward, of one sample", .required = true),
	ROW(params, "weights; 0 = none", .required = true),
	ROW(grad_flop, "backward, of one sample; default 2 flop"),
	ROW(grad_bytes, "backward, of one sample; default 2 bytes"),
	ROW(kept_bytes, "kept for backward, of one sample; default bytes / 2"),
	ROW(outputs, "of the matrix of its weights; default none"),
	ROW(inputs, "the same: of a convolution, channels times its window"),
	ROW(positions, "of a sample that the matrix is applied to; default 1"),
	{0},
};
static const struct sc_field SHARDING_PLAN_FIELDS[] = {
	STR(sc_sharding_plan, plan, "file of a plan; else the planner makes one",
	    NEEDS(SC_NEEDS_DLRM)),
	ENUM_OR(sc_sharding_plan, planner, sc_planner_names, SC_PLANNER_NONE,
		"of tables that no plan places", NEEDS(SC_NEEDS_DLRM),
		FROM_UNLESS("stepcast", "the software")),
	DOUBLE(sc_sharding_plan, bw_ratio, 1e-3, 1e6,
	       "hugectr: memory over network bandwidth; default: its recipe's",
	       NEEDS(SC_NEEDS_DLRM)),
	DOUBLE(sc_sharding_plan, dp_threshold_gb, 0, 1e6,
	       "hugectr: smaller tables are data parallel, 1e9 bytes; default: its recipe's",
	       NEEDS(SC_NEEDS_DLRM)),
	DOUBLE(sc_sharding_plan, column_slice_elements, 1, 1e18,
	       "memory_balanced: larger tables are cut into columns", NEEDS(SC_NEEDS_DLRM)),
	DOUBLE(sc_sharding_plan, hbm_gib, 1e-3, MAX_GPU_GIB,
	       "of each GPU, for tables; default: what hbm_reserve_frac and the software leave, of "
	       "hugectr at most 60 GB",
	       NEEDS(SC_NEEDS_DLRM)),
	DOUBLE(sc_sharding_plan, hbm_reserve_frac, 0, 0.99,
	       "share of a GPU's memory kept from tables; default 0.1, of TorchRec's planner 0.15",
	       NEEDS(SC_NEEDS_DLRM)),
	{0},
};
static const struct sc_field DLRM_FIELDS[] = {
	DOUBLE(sc_dlrm_own, host_sample_us, 0, 1e9,
	       "CPU time of your input pipeline a sample of a rank, us; default: the software's",
	       NEEDS(SC_NEEDS_DLRM)),
	{0},
};
#define STATES                                                                          \
	INT(sc_linear_mixer, value_heads, 1, MAX_STATE, "heads of values, and states"), \
		INT(sc_linear_mixer, key_dim, 1, MAX_STATE, "width of a key: rows of a state")
#define CONVOLUTION                                                                     \
	SC_FIELD_IN(INT, sc_linear_mixer, conv, 0, MAX_STATE,                           \
		    "tokens that the convolution before it reads; default 4, 0 = none", \
		    .absent = 4)
static const struct sc_field LINEAR_FIELDS[] = {
	INT(sc_linear_mixer, key_heads, 1, MAX_STATE,
	    "heads of queries and keys; default value_heads"),
	STATES,
	INT(sc_linear_mixer, value_dim, 1, MAX_STATE, "width of a value; default key_dim"),
	CONVOLUTION,
	{0},
};
static const struct sc_field KDA_FIELDS[] = {
	STATES,
	CONVOLUTION,
	INT(sc_linear_mixer, gate_rank, 0, MAX_HIDDEN,
	    "of the output's gate; 0 = full; default key_dim"),
	{0},
};
static const struct sc_field LIGHTNING_FIELDS[] = {STATES, {0}};
static const struct sc_field MAMBA1_FIELDS[] = {
	INT(sc_linear_mixer, value_heads, 1, MAX_HIDDEN, "channels"),
	INT(sc_linear_mixer, key_dim, 1, MAX_STATE, "width of a channel's state"),
	CONVOLUTION,
	INT(sc_linear_mixer, gate_rank, 1, MAX_HIDDEN,
	    "of the steps' product; default a sixteenth of hidden"),
	{0},
};
static const struct sc_field SPARSE_FIELDS[] = {
	INT(sc_sparse_mixer, index_heads, 1, MAX_STATE, "heads of the indexer"),
	INT(sc_sparse_mixer, index_dim, 1, MAX_STATE,
	    "width of its heads, and of its one key; default 128"),
	INT(sc_sparse_mixer, top_k, 1, MAX_SEQ, "keys that attention reads of a token"),
	INT(sc_sparse_mixer, block, 1, MAX_SEQ, "keys chosen together; default 1"),
	{0},
};
static const struct sc_field COMPRESSED_FIELDS[] = {
	SC_FIELD_IN(INT, sc_compressed_mixer, compression, 1, MAX_STATE,
		    "csa: tokens of a compressed key; default 4", .absent = 4),
	SC_FIELD_IN(INT, sc_compressed_mixer, heavy_compression, 1, MAX_STATE,
		    "hca: tokens of a compressed key; default 128", .absent = 128),
	INT(sc_compressed_mixer, output_groups, 1, MAX_STATE,
	    "groups of heads that project their outputs"),
	INT(sc_compressed_mixer, output_rank, 1, MAX_HIDDEN, "width that each projects to"),
	INT(sc_compressed_mixer, streams, 1, 64,
	    "residual streams that layers mix (hyper-connections); default 1"),
	{0},
};
static const struct sc_field DIT_FIELDS[] = {
	SC_FIELD_IN(INT, sc_dit, text_seq, 0, MAX_SEQ,
		    "tokens of a text: of double and single layers those among model.seq, of cross "
		    "layers those beside it"),
	SC_FIELD_IN(INT, sc_dit, text_dim, 1, MAX_HIDDEN,
		    "width of a text's tokens, which a frozen encoder made; default 4096",
		    .absent = 4096),
	SC_FIELD_IN(INT, sc_dit, patch_dim, 1, MAX_HIDDEN,
		    "numbers of a patch, in and out; default 64", .absent = 64),
	SC_FIELD_IN(
		INT, sc_dit, pooled_dim, 0, MAX_HIDDEN,
		"width of what is known of a text as a whole, which norms are modulated by; default none"),
	{0},
};
static const struct sc_field TOWER_FIELDS[] = {
	INT(sc_tower, layers, 1, MAX_LAYERS, "of the tower"),
	INT(sc_tower, hidden, 1, MAX_HIDDEN, "width"),
	INT(sc_tower, heads, 1, MAX_HEADS, "attention heads"),
	INT(sc_tower, ffn_hidden, 1, MAX_FFN, "width of its MLP"),
	INT(sc_tower, patch_dim, 1, MAX_HIDDEN, "numbers of a patch: its pixels times 3"),
	INT(sc_tower, patches, 1, MAX_SEQ, "of an image"),
	DOUBLE(sc_tower, images, 0, MAX_SEQ, "of a sample, mean; their tokens are among model.seq"),
	INT(sc_tower, merge, 1, 4096,
	    "patches that become one token of the language model; default 1"),
	INT(sc_tower, connectors, 1, MAX_LAYERS, "of two products each; default 1"),
	ENUM_OR(sc_tower, frozen, BOOL_NAMES, 0, "its layers are not trained; default false"),
	STR(sc_tower, left_out, "section of a config.json whose tower is not predicted"),
	{0},
};
static const struct sc_field HSTU_FIELDS[] = {
	SC_FIELD_IN(INT, sc_hstu, layers, 0, MAX_LAYERS, "transducer layers; 0 = none"),
	INT(sc_hstu, hidden, 1, MAX_HIDDEN, "width of a token; default: that of the first table"),
	SC_FIELD_IN(INT, sc_hstu, heads, 1, MAX_STATE, "heads; default 1", .absent = 1),
	INT(sc_hstu, head_dim, 1, MAX_HIDDEN,
	    "width of a head's query, key, value and gate; default hidden / heads"),
	SC_FIELD_IN(INT, sc_hstu, token_mlp, 0, MAX_HIDDEN,
		    "inner width of the MLPs that make tokens of a sample's vectors; default none"),
	SC_FIELD_IN(DOUBLE, sc_hstu, tokens, 0, MAX_SEQ, "of a sample's sequence, mean"),
	SC_FIELD_IN(DOUBLE, sc_hstu, tokens_cv, 0, 10,
		    "their deviation over their mean, from sample to sample; default 0"),
	{0},
};
static const struct sc_field MODEL_FIELDS[] = {
	ENUM_OR(sc_model, family, sc_family_names, SC_FAMILY_NONE, "kind of model"),
	INT(sc_model, layers, 1, MAX_LAYERS, "Transformer layers", NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, hidden, 1, MAX_HIDDEN, "width", NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, heads, 1, MAX_HEADS, "attention heads", NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, kv_heads, 1, MAX_HEADS, "key-value heads; default heads",
	    FROM("default: heads")),
	INT(sc_model, ffn_hidden, 1, MAX_FFN, "width of the MLP; default 4 hidden",
	    FROM("default: 4 * hidden")),
	INT(sc_model, vocab, 1, MAX_VOCAB, "vocabulary", NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, seq, 1, MAX_SEQ, "tokens in a sample", NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, experts, 1, MAX_EXPERTS, "experts in a layer", NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, top_k, 1, MAX_EXPERTS, "experts a token goes to", NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, expert_ffn_hidden, 1, MAX_FFN, "width of one expert",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, head_dim, 1, MAX_HIDDEN, "width of a head; default hidden / heads"),
	INT(sc_model, shared_experts, 0, MAX_EXPERTS, "experts that every token takes",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, dense_layers, 0, MAX_LAYERS, "first layers without experts",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, experts_every, 1, MAX_LAYERS,
	    "of the layers after those the last of each so many has experts; default 1",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, q_lora_rank, 0, MAX_HIDDEN, "latent attention: rank of queries, 0 = full"),
	INT(sc_model, kv_lora_rank, 1, MAX_HIDDEN, "latent attention: rank of keys and values"),
	INT(sc_model, rope_head_dim, 0, MAX_HIDDEN, "latent attention: rotary part of a head"),
	INT(sc_model, v_head_dim, 1, MAX_HIDDEN, "latent attention: width of a head's values"),
	ENUM(sc_model, tied_embeddings, BOOL_NAMES, "output layer is the word embedding"),
	ENUM(sc_model, biases, BOOL_NAMES, "linear layers have biases; default: the family's"),
	ENUM(sc_model, qk_norm, BOOL_NAMES,
	     "queries and keys are normed head by head; default false"),
	INT(sc_model, expert_groups, 1, MAX_EXPERTS, "groups that experts lie in",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, top_groups, 1, MAX_EXPERTS, "groups that a token's experts are of",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, expert_latent, 1, MAX_HIDDEN,
	    "experts work on tokens projected to this width (Nemotron-3); default hidden",
	    NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_model, mtp_layers, 0, MAX_LAYERS, "layers that predict later tokens (DeepSeek-V3)"),
	INT(sc_model, sliding_window, 1, MAX_SEQ,
	    "tokens that attention reaches back; default all"),
	INT(sc_model, full_attention_every, 1, MAX_LAYERS,
	    "one layer in so many has no sliding window; default none"),
	STR(sc_model, layers_pattern,
	    "kinds of layers in order, as in (3*gdn,1*attn)*12: attn, full_attn (no window), dsa, "
	    "dsa_shared (keys of the layer before), csa, hca, gdn, kda, lightning, mamba1, mamba2, and layers that are moe or mlp alone; double, single, cross (diffusion transformers); or Hugging Face's layer_types; or Nemotron's letters, "
	    "MEM*E",
	    NEEDS(SC_NEEDS_TRANSFORMER), .may_be_list = true),
	ENUM_OR(sc_model, attention_gate, BOOL_NAMES, 0,
		"attention's output is multiplied by a gate as wide (Qwen3-Next); default false"),
	ENUM_OR(sc_model, attention_sinks, BOOL_NAMES, 0,
		"a learned logit more in each head's softmax (gpt-oss); default false",
		NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, full_head_dim, 1, MAX_HIDDEN,
	    "width of a head in layers without a window; default head_dim",
	    NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_model, full_kv_heads, 1, MAX_HEADS,
	    "key-value heads in layers without a window; default kv_heads",
	    NEEDS(SC_NEEDS_TRANSFORMER)),
	ENUM_OR(sc_model, full_keys_as_values, BOOL_NAMES, 0,
		"keys are values, too, in layers without a window (Gemma 4); default false",
		NEEDS(SC_NEEDS_TRANSFORMER)),
	SC_FIELD_MAP(sc_model, dsa, SPARSE_FIELDS,
		     "sparse attention: an indexer chooses the keys (DeepSeek-V3.2)"),
	SC_FIELD_MAP(sc_model, csa, COMPRESSED_FIELDS,
		     "compressed sparse attention, with model.dsa its indexer (DeepSeek-V4)"),
	SC_FIELD_MAP(sc_model, gdn, LINEAR_FIELDS, "gated delta net layers (Qwen3-Next)"),
	SC_FIELD_MAP(sc_model, mamba2, LINEAR_FIELDS, "Mamba-2 layers (Nemotron-H)"),
	SC_FIELD_MAP(sc_model, kda, KDA_FIELDS, "Kimi delta attention layers (Kimi-Linear)"),
	SC_FIELD_MAP(sc_model, lightning, LIGHTNING_FIELDS,
		     "lightning attention layers (MiniMax-Text-01)"),
	SC_FIELD_MAP(sc_model, mamba1, MAMBA1_FIELDS,
		     "Mamba layers; value_heads are channels, key_dim is their state (Jamba)"),
	SC_FIELD_MAP(sc_model, tower, TOWER_FIELDS,
		     "an encoder of images in front of a language model (Qwen3-VL)",
		     .needs = SC_NEEDS_TRANSFORMER),
	SC_FIELD_MAP(sc_model, dit, DIT_FIELDS, "diffusion transformers: texts and patches"),
	INT(sc_model, dense_features, 0, MAX_HIDDEN, "DLRM: numerical features of a sample",
	    NEEDS(SC_NEEDS_DLRM)),
	INTS(sc_model, bottom_mlp, 1, MAX_HIDDEN, "DLRM: widths of the dense features' MLP",
	     NEEDS(SC_NEEDS_DLRM)),
	INTS(sc_model, top_mlp, 1, MAX_HIDDEN, "DLRM: widths of the last MLP, the logit included",
	     NEEDS(SC_NEEDS_DLRM)),
	ENUM(sc_model, interaction, INTERACTION_NAMES, "DLRM: of the features",
	     NEEDS(SC_NEEDS_DLRM)),
	INT(sc_model, cross_layers, 1, 1000, "DLRM, dcnv2: cross layers"),
	INT(sc_model, low_rank, 1, MAX_HIDDEN, "DLRM, dcnv2: rank of a cross layer's matrix"),
	SC_FIELD_MAP(sc_model, hstu, HSTU_FIELDS,
		     "DLRM: layers over a sequence, in place of an interaction (HSTU)",
		     .needs = SC_NEEDS_DLRM),
	INT(sc_model, interact_stride, 1, MAX_HIDDEN, "DLRM, cat: columns averaged into one"),
	SC_FIELD_LIST(sc_model, tables, TABLE_FIELDS, sc_table, "DLRM: embedding tables",
		      .needs = SC_NEEDS_DLRM),
	STR(sc_model, tables_csv, "DLRM: a CSV file that lists the tables", NEEDS(SC_NEEDS_DLRM)),
	SC_FIELD_LIST(sc_model, rows, sc_layer_row_fields, sc_layer_row,
		      "layers: what each computes, moves and learns", .needs = SC_NEEDS_LAYERS),
	STR(sc_model, rows_csv, "layers: a CSV file that lists the rows", NEEDS(SC_NEEDS_LAYERS)),
	{0},
};
static const struct sc_field PARALLEL_FIELDS[] = {
	INT(sc_parallel, tp, 1, MAX_SPLIT, "tensor-parallel ranks"),
	INT(sc_parallel, pp, 1, MAX_SPLIT, "pipeline stages"),
	INT(sc_parallel, dp, 1, SC_MAX_GPUS, "data-parallel replicas; default gpus / (tp pp cp)",
	    FROM("default: gpus / (tp * pp * cp)")),
	INT(sc_parallel, cp, 1, MAX_SPLIT, "context-parallel ranks"),
	INT(sc_parallel, ep, 1, MAX_SPLIT, "expert-parallel ranks, cut out of tp, cp and dp"),
	INT(sc_parallel, virtual_stages, 1, MAX_VIRTUAL, "model chunks a stage",
	    FROM_UNLESS("1", "the software")),
	SC_FIELD_OF(ENUM, sc_parallel, schedule, sc_schedule_names,
		    "order of forward and backward passes, or a CSV or JSON file of it",
		    .absent = SC_SCHED_1F1B,
		    .file_offset = offsetof(struct sc_parallel, schedule_file),
		    .file_value = SC_SCHED_FILE),
	ENUM_OR(sc_parallel, sharding, SHARDING_NAMES, SC_ZERO_NONE,
		"of optimizer, gradients, weights", FROM_UNLESS("none", "the software")),
	BOOL(sc_parallel, sequence_parallel, "split norms and dropout over tp ranks",
	     FROM_UNLESS("false", "the software")),
	BOOL(sc_parallel, tp_overlap, "tensor-parallel collectives overlap their GEMMs",
	     FROM_UNLESS("false", "the software")),
	STR(sc_parallel, order, "rank order, innermost first; default tp-cp-ep-dp-pp"),
	SC_FIELD_IN(INTS, sc_parallel, stage_layers, 1, MAX_LAYERS,
		    "layers of each stage, or balanced", .names = BALANCED_NAMES),
	STR(sc_parallel, layout,
	    "what each chunk has, as Megatron Core writes it: Et*4|(t*4|)*14tmL"),
	INT(sc_parallel, shard_ranks, 1, SC_MAX_GPUS,
	    "ranks that sharding spreads over (HSDP); default all of dp and cp"),
	INT(sc_parallel, etp, 1, MAX_SPLIT, "tensor-parallel ranks of an expert: tp or 1",
	    NEEDS(SC_NEEDS_EXPERTS), FROM("default: parallel.tp")),
	INT(sc_parallel, chimera_replicas, 1, MAX_SPLIT, "pipelines of a schedule chimera"),
	INT(sc_parallel, waves, 1, MAX_VIRTUAL, "waves of a schedule hanayo"),
	ENUM(sc_parallel, vocab_stages, VOCAB_STAGES_NAMES, "output layer split over stages"),
	BOOL(sc_parallel, count_embedding, "the embedding counts as a layer of its stage"),
	BOOL(sc_parallel, count_loss, "the output layer counts as a layer of its stage"),
	ENUM(sc_parallel, optimizer_validation, VALIDATION_NAMES,
	     "when stages agree that gradients are finite"),
	FLAGS(sc_parallel, auto_among, sc_schedule_set_names, SC_NOT_GIVEN,
	      "of a schedule auto: all, or a list of those to choose among",
	      FROM_UNLESS("all", "the software")),
	{0},
};
static const struct sc_name MUON_SHARDING_NAMES[] = {
	{"none", SC_MUON_NONE}, {"owner", SC_MUON_OWNER}, {"parts", SC_MUON_PARTS}, {0}};
static const struct sc_field OFFLOAD_FIELDS[] = {
	ENUM(sc_offload, optimizer, TIER_NAMES, "where its states are"),
	ENUM(sc_offload, gradients, TIER_NAMES, "where they are"),
	ENUM(sc_offload, weights, TIER_NAMES, "where they are"),
	ENUM(sc_offload, activations, TIER_NAMES, "where they wait for backward"),
	DOUBLE(sc_offload, optimizer_fraction, 0, 1,
	       "share of the states that is not on the GPU; default 1"),
	INT(sc_offload, activation_layers, 0, MAX_LAYERS,
	    "layers of a stage whose activations leave the GPU; default all"),
	INT(sc_offload, prefetch_layers, 0, MAX_LAYERS, "layers fetched ahead; default 1"),
	INT(sc_offload, tiles, 1, MAX_LAYERS,
	    "parts of a layer whose sharded weights are gathered one after another; default 1"),
	BOOL(sc_offload, partition_activations,
	     "inputs of layers that are recomputed are divided over tensor-parallel ranks"),
	{0},
};
static const struct sc_field TRAINING_FIELDS[] = {
	INT(sc_training, global_batch, 1, MAX_BATCH, "samples an iteration, all replicas"),
	INT(sc_training, micro_batch, 1, MAX_BATCH, "samples a forward pass, one replica",
	    FROM("default: without a pipeline the most of a replica's samples that fits, else 1")),
	ENUM(sc_training, precision, sc_precision_names, "of the GEMMs",
	     FROM("default: bf16 where the GPU has it, else fp16")),
	FLAGS(sc_training, recompute, sc_recompute_names, SC_NOT_GIVEN,
	      "of activations in backward; or a list of modules",
	      FROM_UNLESS("none", "the software")),
	INT(sc_training, recompute_layers, 1, MAX_LAYERS, "layers of a stage that recompute"),
	ENUM(sc_training, attention, ATTENTION_NAMES,
	     "kernels; sdpa: flash, also before Ampere, by PyTorch's own kernel",
	     FROM_UNLESS("flash", "the software")),
	ENUM(sc_training, optimizer, sc_optimizer_names, "none: no update",
	     FROM_UNLESS("adam", "the family or the software")),
	ENUM_OR(sc_training, trainable, TRAINABLE_NAMES, SC_TRAIN_ALL,
		"which parameters are updated"),
	INT(sc_training, grad_bytes, 2, 4, "of a gradient's element, as it is held and reduced",
	    FROM("default: what the software says")),
	DOUBLE(sc_training, moment_bytes, 0.5, 8,
	       "of an element of each of the optimizer's moments", NEEDS(SC_NEEDS_TRANSFORMER),
	       FROM("default: 4, or what the optimizer or the software says")),
	DOUBLE(sc_training, master_bytes, 0, 4,
	       "of an element of the optimizer's own copy of 16-bit weights; 0: it updates the weights",
	       NEEDS(SC_NEEDS_TRANSFORMER), FROM("default: 4")),
	BOOL(sc_training, unpadded, "no padding tokens", FROM_UNLESS("false", "the software")),
	INT(sc_training, document_tokens, 1, MAX_SEQ,
	    "of packed samples: a document's, sum of squares over sum; default model.seq",
	    NEEDS(SC_NEEDS_TRANSFORMER)),
	DOUBLE(sc_training, fill_fraction, 0.01, 1, "share of seq that is tokens, if unpadded",
	       FROM_UNLESS("1", "the software, or the mean of the family's samples")),
	DOUBLE(sc_training, expert_imbalance, 1, 1000, "busiest expert rank over the mean",
	       NEEDS(SC_NEEDS_EXPERTS)),
	INT(sc_training, lora_rank, 1, MAX_HIDDEN, "rank of LoRA adapters; default 16",
	    NEEDS(SC_NEEDS_LORA)),
	ENUM(sc_training, lora_targets, LORA_TARGET_NAMES, "layers with LoRA adapters",
	     NEEDS(SC_NEEDS_LORA)),
	FLAGS(sc_training, cuda_graphs, sc_graph_names, 0,
	      "launches are replayed; or a list of scopes", FROM_UNLESS("false", "the software")),
	BOOL(sc_training, launch_blocking,
	     "each launch waits until its kernel has ended, as CUDA_LAUNCH_BLOCKING=1 has it",
	     NEEDS(SC_NEEDS_TRANSFORMER), FROM_UNLESS("false", "the software")),
	STR(sc_training, software, "a file of configs/software; default \"default\""),
	STR(sc_training, software_version, "release of the software, as its source says it"),
	ENUM(sc_training, fp8_recipe, sc_fp8_recipe_names, "how fp8 tensors are scaled",
	     FROM_UNLESS("delayed", "the software")),
	INT(sc_training, bf16_first_layers, 0, MAX_LAYERS,
	    "first layers whose products stay in bf16 beside fp8 or fp4; default 0",
	    NEEDS(SC_NEEDS_TRANSFORMER)),
	INT(sc_training, bf16_last_layers, 0, MAX_LAYERS, "last layers, likewise; default 0",
	    NEEDS(SC_NEEDS_TRANSFORMER)),
	ENUM(sc_training, moe_dispatcher, sc_dispatcher_names, "how tokens go to experts",
	     NEEDS(SC_NEEDS_EXPERTS), FROM_UNLESS("all_to_all", "the software")),
	BOOL(sc_training, moe_overlap, "expert exchange beside another batch's work",
	     NEEDS(SC_NEEDS_EXPERTS), FROM_UNLESS("false", "the software")),
	ENUM(sc_training, routing, ROUTING_NAMES,
	     "of tokens to experts; in_turn: balanced, and those of a token are neighbours"),
	DOUBLE(sc_training, grad_worker_frac, 0, 1,
	       "of the replicas: those that have a layer's eigenvectors; default 1",
	       NEEDS(SC_NEEDS_KFAC)),
	INT(sc_training, factor_update_steps, 1, 1000000,
	    "from one update of the factors to the next; default 10", NEEDS(SC_NEEDS_KFAC)),
	INT(sc_training, inv_update_steps, 1, 1000000,
	    "from one update of the eigenvectors to the next; default 100", NEEDS(SC_NEEDS_KFAC)),
	ENUM(sc_training, muon_sharding, MUON_SHARDING_NAMES,
	     "Muon's matrices are stepped by all ranks, by one that owns each, or by those with parts",
	     NEEDS(SC_NEEDS_MUON),
	     FROM("default: owner where parallel.sharding spreads states, else none")),
	SC_FIELD_MAP(sc_training, offload, OFFLOAD_FIELDS, "states that are not kept on the GPU"),
	{0},
};
static const struct sc_field STRAGGLER_FIELDS[] = {
	SC_FIELD_IN(INTS, sc_straggler, ranks, 0, SC_MAX_GPUS - 1, "ranks that are slow",
		    .required = true),
	SC_FIELD_IN(DOUBLE, sc_straggler, slowdown, 1, 1000, "factor on their kernel times",
		    .required = true),
	{0},
};
static const struct sc_name ENDPOINT_NAMES[] = {
	{"sms", SC_ENDPOINT_SMS},
	{"engine", SC_ENDPOINT_ENGINE},
	{"ideal", SC_ENDPOINT_IDEAL},
	{0},
};
static const struct sc_field ENDPOINT_FIELDS[] = {
	ENUM_OR(sc_endpoint, kind, ENDPOINT_NAMES, SC_ENDPOINT_SMS,
		"kernels, an offload engine (ACE), or nothing that takes time"),
	INT(sc_endpoint, sms, 0, 4096, "SMs kept for communication; default: none, all in turn"),
	DOUBLE(sc_endpoint, memory_gbps, 1, 1e6,
	       "memory bandwidth kept for communication, 1e9 bytes/s; default: none, all in turn"),
	{0},
};
static const struct sc_field C3_FIELDS[] = {
	SC_FIELD_MAP(
		sc_c3, policy, sc_c3_family_fields,
		"how collectives and computation beside them share a GPU; one for all, or by family",
		.scalar = "all"),
	INT(sc_c3, channels, 1, 1024,
	    "of a collective, an SM each (NCCL_MAX_NCHANNELS); default: what the library takes"),
	SC_FIELD_MAP(sc_c3, endpoint, ENDPOINT_FIELDS,
		     "who drives a torus, and what is kept for it", .needs = SC_NEEDS_TORUS),
	{0},
};
const struct sc_field sc_config_fields[] = {
	STR(sc_config, schema, "stepcast/1"),
	STR(sc_config, notes, "free text"),
	SC_FIELD_IN(DOUBLE, sc_config, measured_ms, 0, DBL_MAX,
		    "measured iteration time; no prediction reads it"),
	SECTION(cluster, CLUSTER_FIELDS, true, "what it runs on"),
	INT(sc_config, gpus, 1, SC_MAX_GPUS, "GPUs in all", FROM("tp * pp * cp * dp")),
	SECTION(model, MODEL_FIELDS, true, "what is trained"),
	SECTION(parallel, PARALLEL_FIELDS, false, "how it is split"),
	SECTION(training, TRAINING_FIELDS, false, "how it is trained"),
	SECTION(c3, C3_FIELDS, false, "concurrent computation and communication"),
	SC_FIELD_LIST(sc_config, stragglers, STRAGGLER_FIELDS, sc_straggler, "slow ranks"),
	SECTION(sharding, SHARDING_PLAN_FIELDS, false, "where the embedding tables of a DLRM go"),
	SECTION(dlrm, DLRM_FIELDS, false, "the input of a DLRM"),
	{0},
};
