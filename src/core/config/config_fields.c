/* The keys of a request (DESIGN.md §6, a contract): one table a section. */
#include <float.h>

#include "core/config/config_priv.h"
#include "core/embedding/reuse.h"

#define NUMBER(type_, struct_, member, lo, hi, text)                                       \
	{                                                                                  \
		.key = #member, .type = type_, .offset = offsetof(struct struct_, member), \
		.min = lo, .max = hi, .help = text                                         \
	}
#define INT(struct_, member, lo, hi, text) NUMBER(SC_F_INT, struct_, member, lo, hi, text)
#define DOUBLE(struct_, member, lo, hi, text) NUMBER(SC_F_DOUBLE, struct_, member, lo, hi, text)
#define PLAIN(type_, struct_, member, text)                                                \
	{                                                                                  \
		.key = #member, .type = type_, .offset = offsetof(struct struct_, member), \
		.help = text                                                               \
	}
#define STR(struct_, member, text) PLAIN(SC_F_STR, struct_, member, text)
#define BOOL(struct_, member, text) PLAIN(SC_F_BOOL, struct_, member, text)
#define ENUM(struct_, member, table, text)                                                     \
	{                                                                                      \
		.key = #member, .type = SC_F_ENUM, .offset = offsetof(struct struct_, member), \
		.names = table, .help = text                                                   \
	}
#define SECTION(member, table, is_file, text)                                                      \
	{                                                                                          \
		.key = #member, .type = SC_F_STRUCT, .offset = offsetof(struct sc_config, member), \
		.sub = table, .may_be_file = is_file, .help = text                                 \
	}
#define INTS(struct_, member, lo, hi, text) NUMBER(SC_F_INTS, struct_, member, lo, hi, text)

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
	MAX_FFN = 1 << 23,
	MAX_VOCAB = 1 << 26,
	MAX_SEQ = 1 << 24,
	MAX_EXPERTS = 1 << 16,
	MAX_BATCH = 1 << 26,
};

static const struct sc_name SCHEDULE_NAMES[] = {
	{"1f1b", SC_SCHED_1F1B},
	{"gpipe", SC_SCHED_GPIPE},
	{"interleaved", SC_SCHED_INTERLEAVED},
	{0},
};
static const struct sc_name SHARDING_NAMES[] = {
	{"none", SC_SHARD_NONE}, {"zero1", SC_ZERO1}, {"zero2", SC_ZERO2},
	{"zero3", SC_ZERO3},     {"fsdp", SC_FSDP},   {0},
};
static const struct sc_name PRECISION_NAMES[] = {
	{"fp32", SC_P_FP32},         {"tf32", SC_P_TF32},
	{"fp16", SC_P_FP16},         {"bf16", SC_P_BF16},
	{"fp8", SC_P_FP8},           {"amp_fp16", SC_P_AMP_FP16},
	{"amp_bf16", SC_P_AMP_BF16}, {0},
};
static const struct sc_name RECOMPUTE_NAMES[] = {
	{"none", SC_RECOMPUTE_NONE},
	{"selective", SC_RECOMPUTE_SELECTIVE},
	{"full", SC_RECOMPUTE_FULL},
	{0},
};
static const struct sc_name ATTENTION_NAMES[] = {
	{"flash", SC_ATT_FLASH},
	{"unfused", SC_ATT_UNFUSED},
	{0},
};
static const struct sc_name OPTIMIZER_NAMES[] = {
	{"adam", SC_OPT_ADAM},
	{"sgd", SC_OPT_SGD},
	{"adagrad", SC_OPT_ADAGRAD},
	{"none", SC_OPT_NONE},
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
static const struct sc_name STORAGE_NAMES[] = {
	{"fp32", SC_FP32 + 1},
	{"fp16", SC_FP16 + 1},
	{"bf16", SC_BF16 + 1},
	{"fp8", SC_FP8 + 1},
	{0},
};
static const struct sc_name BOOL_NAMES[] = {{"false", 0}, {"true", 1}, {0}};

#define MAX_NODE_GIB 1e7
#define MAX_GPU_GIB 1e4
static const struct sc_field NODE_KIND_FIELDS[] = {
	{.key = "gpu",
	 .type = SC_F_STR,
	 .offset = offsetof(struct sc_gpu_nodes, gpu),
	 .required = true,
	 .help = "device id: a file of configs/devices"},
	{.key = "count",
	 .type = SC_F_INT,
	 .offset = offsetof(struct sc_gpu_nodes, count),
	 .min = 1,
	 .max = SC_MAX_GPUS,
	 .required = true,
	 .help = "nodes of gpus_per_node such GPUs"},
	{0},
};
static const struct sc_field CLUSTER_FIELDS[] = {
	STR(sc_cluster, gpu, "device id: a file of configs/devices"),
	{.key = "nodes",
	 .type = SC_F_STRUCTS,
	 .offset = offsetof(struct sc_cluster, nodes),
	 .sub = NODE_KIND_FIELDS,
	 .elem_bytes = sizeof(struct sc_gpu_nodes),
	 .help = "mixed clusters: kinds of nodes, in rank order"},
	INT(sc_cluster, gpus_per_node, 1, MAX_PER_NODE, "default: the GPU's usual node"),
	INT(sc_cluster, nics_per_node, 0, MAX_PER_NODE, "0 is fine on one node"),
	DOUBLE(sc_cluster, nic_gbit_s, 0, 1e5, "one NIC, Gbit/s"),
	INT(sc_cluster, scale_up_gpus, 1, SC_MAX_GPUS,
	    "GPUs in one NVLink domain; default gpus_per_node"),
	DOUBLE(sc_cluster, nic_latency_us, 0, 1e5, "port to port, us; default: the fabric's"),
	DOUBLE(sc_cluster, link_gbps, 0, 1e6,
	       "per GPU, one direction, 1e9 bytes/s; default: the GPU's"),
	STR(sc_cluster, fabric,
	    "infiniband, ethernet, efa, omni-path, slingshot; or a file of configs/fabrics"),
	DOUBLE(sc_cluster, host_memory_gib, 0, MAX_NODE_GIB,
	       "of a node, for embedding tables; default: 128 for each of its GPUs in use"),
	DOUBLE(sc_cluster, ssd_gib, 0, MAX_NODE_GIB,
	       "of a node, for embedding tables; default: none on SSD"),
	{0},
};
#define MAX_POOLING 1e6
static const struct sc_field TABLE_FIELDS[] = {
	STR(sc_table, name, "default: table_0, table_1 ..."),
	{.key = "rows",
	 .type = SC_F_INT,
	 .offset = offsetof(struct sc_table, rows),
	 .min = 1,
	 .max = SC_MAX_TABLE_ROWS,
	 .required = true,
	 .help = "entries"},
	{.key = "dim",
	 .type = SC_F_INT,
	 .offset = offsetof(struct sc_table, dim),
	 .min = 1,
	 .max = SC_MAX_TABLE_DIM,
	 .required = true,
	 .help = "elements of an entry"},
	DOUBLE(sc_table, pooling, 0, MAX_POOLING, "lookups of a sample and feature; default 1"),
	INT(sc_table, count, 1, SC_MAX_TABLES, "tables alike; default 1"),
	INT(sc_table, features, 1, 1000, "features that share it; default 1"),
	ENUM(sc_table, storage, STORAGE_NAMES, "type of the weights; default: the software's"),
	BOOL(sc_table, weighted, "lookups have weights"),
	BOOL(sc_table, sequence, "lookups are not pooled"),
	{.key = "reuse",
	 .type = SC_F_STRUCT,
	 .offset = offsetof(struct sc_table, reuse),
	 .sub = sc_reuse_fields,
	 .may_be_file = true,
	 .help = "how often rows come back; default: reuse/default.yaml"},
	{0},
};
static const struct sc_field SHARDING_PLAN_FIELDS[] = {
	STR(sc_sharding_plan, plan, "file of a plan; else the planner makes one"),
	ENUM(sc_sharding_plan, planner, sc_planner_names, "default: the software's"),
	DOUBLE(sc_sharding_plan, bw_ratio, 1e-3, 1e6,
	       "hugectr: memory over network bandwidth; default: its recipe's"),
	DOUBLE(sc_sharding_plan, dp_threshold_gb, 0, 1e6,
	       "hugectr: smaller tables are data parallel, 1e9 bytes; default: its recipe's"),
	DOUBLE(sc_sharding_plan, column_slice_elements, 1, 1e18,
	       "memory_balanced: larger tables are cut into columns"),
	DOUBLE(sc_sharding_plan, hbm_gib, 1e-3, MAX_GPU_GIB,
	       "of each GPU, for tables; default: what hbm_reserve_frac and the software leave"),
	DOUBLE(sc_sharding_plan, hbm_reserve_frac, 0, 0.99,
	       "share of a GPU's memory kept from tables; default 0.1, of TorchRec's planner 0.15"),
	{0},
};
static const struct sc_field MODEL_FIELDS[] = {
	ENUM(sc_model, family, sc_family_names, "kind of model"),
	INT(sc_model, layers, 1, MAX_LAYERS, "Transformer layers"),
	INT(sc_model, hidden, 1, MAX_HIDDEN, "width"),
	INT(sc_model, heads, 1, MAX_HEADS, "attention heads"),
	INT(sc_model, kv_heads, 1, MAX_HEADS, "key-value heads; default heads"),
	INT(sc_model, ffn_hidden, 1, MAX_FFN, "width of the MLP; default 4 hidden"),
	INT(sc_model, vocab, 1, MAX_VOCAB, "vocabulary"),
	INT(sc_model, seq, 1, MAX_SEQ, "tokens in a sample"),
	INT(sc_model, experts, 1, MAX_EXPERTS, "experts in a layer"),
	INT(sc_model, top_k, 1, MAX_EXPERTS, "experts a token goes to"),
	INT(sc_model, expert_ffn_hidden, 1, MAX_FFN, "width of one expert"),
	INT(sc_model, head_dim, 1, MAX_HIDDEN, "width of a head; default hidden / heads"),
	INT(sc_model, shared_experts, 0, MAX_EXPERTS, "experts that every token takes"),
	INT(sc_model, dense_layers, 0, MAX_LAYERS, "first layers without experts"),
	INT(sc_model, q_lora_rank, 0, MAX_HIDDEN, "latent attention: rank of queries, 0 = full"),
	INT(sc_model, kv_lora_rank, 1, MAX_HIDDEN, "latent attention: rank of keys and values"),
	INT(sc_model, rope_head_dim, 0, MAX_HIDDEN, "latent attention: rotary part of a head"),
	INT(sc_model, v_head_dim, 1, MAX_HIDDEN, "latent attention: width of a head's values"),
	ENUM(sc_model, tied_embeddings, BOOL_NAMES, "output layer is the word embedding"),
	INT(sc_model, dense_features, 0, MAX_HIDDEN, "DLRM: numerical features of a sample"),
	INTS(sc_model, bottom_mlp, 1, MAX_HIDDEN, "DLRM: widths of the dense features' MLP"),
	INTS(sc_model, top_mlp, 1, MAX_HIDDEN, "DLRM: widths of the last MLP, the logit included"),
	ENUM(sc_model, interaction, INTERACTION_NAMES, "DLRM: of the features"),
	INT(sc_model, cross_layers, 1, 1000, "DLRM, dcnv2: cross layers"),
	INT(sc_model, low_rank, 1, MAX_HIDDEN, "DLRM, dcnv2: rank of a cross layer's matrix"),
	INT(sc_model, interact_stride, 1, MAX_HIDDEN, "DLRM, cat: columns averaged into one"),
	{.key = "tables",
	 .type = SC_F_STRUCTS,
	 .offset = offsetof(struct sc_model, tables),
	 .sub = TABLE_FIELDS,
	 .elem_bytes = sizeof(struct sc_table),
	 .help = "DLRM: embedding tables"},
	STR(sc_model, tables_csv, "DLRM: a CSV file that lists the tables"),
	{0},
};
static const struct sc_field PARALLEL_FIELDS[] = {
	INT(sc_parallel, tp, 1, MAX_SPLIT, "tensor-parallel ranks"),
	INT(sc_parallel, pp, 1, MAX_SPLIT, "pipeline stages"),
	INT(sc_parallel, dp, 1, SC_MAX_GPUS, "data-parallel replicas; default gpus / (tp pp cp)"),
	INT(sc_parallel, cp, 1, MAX_SPLIT, "context-parallel ranks"),
	INT(sc_parallel, ep, 1, MAX_SPLIT, "expert-parallel ranks, cut out of cp and dp"),
	INT(sc_parallel, virtual_stages, 1, MAX_VIRTUAL, "model chunks a stage"),
	ENUM(sc_parallel, schedule, SCHEDULE_NAMES, "order of forward and backward passes"),
	ENUM(sc_parallel, sharding, SHARDING_NAMES, "of optimizer, gradients, weights"),
	BOOL(sc_parallel, sequence_parallel, "split norms and dropout over tp ranks"),
	BOOL(sc_parallel, tp_overlap, "tensor-parallel collectives overlap their GEMMs"),
	STR(sc_parallel, order, "rank order, innermost first; default: the software's"),
	{.key = "stage_layers",
	 .type = SC_F_INTS,
	 .offset = offsetof(struct sc_parallel, stage_layers),
	 .min = 1,
	 .max = MAX_LAYERS,
	 .help = "layers of each stage"},
	INT(sc_parallel, shard_ranks, 1, SC_MAX_GPUS,
	    "ranks that sharding spreads over (HSDP); default all of dp and cp"),
	{0},
};
static const struct sc_field TRAINING_FIELDS[] = {
	INT(sc_training, global_batch, 1, MAX_BATCH, "samples an iteration, all replicas"),
	INT(sc_training, micro_batch, 1, MAX_BATCH, "samples a forward pass, one replica"),
	ENUM(sc_training, precision, PRECISION_NAMES, "of the GEMMs"),
	ENUM(sc_training, recompute, RECOMPUTE_NAMES, "of activations in backward"),
	ENUM(sc_training, attention, ATTENTION_NAMES, "kernels"),
	ENUM(sc_training, optimizer, OPTIMIZER_NAMES, "none: no update"),
	ENUM(sc_training, trainable, TRAINABLE_NAMES, "which parameters are updated"),
	BOOL(sc_training, unpadded, "no padding tokens"),
	DOUBLE(sc_training, fill_fraction, 0.01, 1, "share of seq that is tokens, if unpadded"),
	DOUBLE(sc_training, expert_imbalance, 1, 1000, "busiest expert rank over the mean"),
	INT(sc_training, lora_rank, 1, MAX_HIDDEN, "rank of LoRA adapters; default 16"),
	ENUM(sc_training, lora_targets, LORA_TARGET_NAMES, "layers with LoRA adapters"),
	BOOL(sc_training, cuda_graphs, "launches are replayed"),
	STR(sc_training, software, "a file of configs/software; default \"default\""),
	{0},
};
static const struct sc_field STRAGGLER_FIELDS[] = {
	{.key = "ranks",
	 .type = SC_F_INTS,
	 .offset = offsetof(struct sc_straggler, ranks),
	 .min = 0,
	 .max = SC_MAX_GPUS - 1,
	 .required = true,
	 .help = "ranks that are slow"},
	{.key = "slowdown",
	 .type = SC_F_DOUBLE,
	 .offset = offsetof(struct sc_straggler, slowdown),
	 .min = 1,
	 .max = 1000,
	 .required = true,
	 .help = "factor on their kernel times"},
	{0},
};
const struct sc_field sc_config_fields[] = {
	STR(sc_config, schema, "stepcast/1"),
	STR(sc_config, notes, "free text"),
	DOUBLE(sc_config, measured_ms, 0, DBL_MAX,
	       "measured iteration time; no prediction reads it"),
	SECTION(cluster, CLUSTER_FIELDS, true, "what it runs on"),
	INT(sc_config, gpus, 1, SC_MAX_GPUS, "GPUs in all"),
	SECTION(model, MODEL_FIELDS, true, "what is trained"),
	SECTION(parallel, PARALLEL_FIELDS, false, "how it is split"),
	SECTION(training, TRAINING_FIELDS, false, "how it is trained"),
	{.key = "stragglers",
	 .type = SC_F_STRUCTS,
	 .offset = offsetof(struct sc_config, stragglers),
	 .sub = STRAGGLER_FIELDS,
	 .elem_bytes = sizeof(struct sc_straggler),
	 .help = "slow ranks"},
	SECTION(sharding, SHARDING_PLAN_FIELDS, false, "where the embedding tables of a DLRM go"),
	{0},
};
