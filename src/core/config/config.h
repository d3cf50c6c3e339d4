/* A complete request: what to train, how it is split, on what. Keys: docs/keys.md. */
#pragma once

#include "base/csv.h"
#include "base/err.h"
#include "base/fields.h"
#include "base/yaml.h"
#include "core/config/model.h"
#include "core/graph/op.h"
#include "core/machine/device.h"
#include "core/machine/fabric.h"
#include "core/machine/software.h"

enum sc_schedule {
	SC_SCHED_GPIPE,
	SC_SCHED_1F1B,
	SC_SCHED_INTERLEAVED, /* 1f1b with virtual_stages above 1 */
	SC_SCHED_BREADTH_FIRST,
	SC_SCHED_ZB_H1,
	SC_SCHED_ZB_H2,
	SC_SCHED_ZB_1P,
	SC_SCHED_ZB_2P,
	SC_SCHED_ZB_V,
	SC_SCHED_V_HALF,
	SC_SCHED_V_MIN,
	SC_SCHED_CHIMERA,
	SC_SCHED_HANAYO,
	SC_SCHED_DUALPIPE,
	SC_SCHED_DUALPIPEV,
	SC_SCHED_GEMS,
	SC_SCHED_FILE, /* schedule_file */
	SC_SCHED_PIPEDREAM_2BW,
	SC_SCHED_AUTO, /* to be chosen (study/evaluate/evaluate.h) */
	SC_N_SCHEDULES
};
/* The one entry of stage_layers that stands for all: to be found when the request is resolved. */
enum { SC_STAGES_BALANCED = -1 };
enum sc_zero { SC_ZERO_NONE, SC_ZERO1, SC_ZERO2, SC_ZERO3, SC_FSDP };
enum sc_precision {
	SC_P_FP32,
	SC_P_TF32,
	SC_P_FP16,
	SC_P_BF16,
	SC_P_FP8,
	SC_P_AMP_FP16,
	SC_P_AMP_BF16,
	SC_P_MXFP8,
	SC_P_NVFP4,
	SC_P_MXFP4
};
enum sc_recompute { SC_RECOMPUTE_NONE, SC_RECOMPUTE_SELECTIVE, SC_RECOMPUTE_FULL };
/* Parts of a layer that backward runs again instead (Megatron Core, --recompute-modules);
 * training.recompute is one of the above, or these or-ed. */
enum {
	SC_RECOMPUTE_CORE_ATTN = SC_FLAG,
	SC_RECOMPUTE_NORMS = SC_FLAG << 1,
	SC_RECOMPUTE_MLA_UP = SC_FLAG << 2,
	SC_RECOMPUTE_MLP = SC_FLAG << 3, /* of layers without experts */
	SC_RECOMPUTE_MOE = SC_FLAG << 4,
	SC_RECOMPUTE_MOE_ACT = SC_FLAG << 5,
	SC_RECOMPUTE_SHARED_EXPERTS = SC_FLAG << 6,
	/* with norms, sail-sg/zero-bubble-pipeline-parallelism, --recompute-lgd */
	SC_RECOMPUTE_MLP_ACT = SC_FLAG << 7, /* of layers without experts */
	SC_RECOMPUTE_DROPOUT = SC_FLAG << 8, /* behind attention and feed-forward */
};
/* PyTorch's scaled_dot_product_attention is flash once a request is resolved, on any GPU. */
enum sc_attention { SC_ATT_FLASH, SC_ATT_UNFUSED, SC_ATT_SDPA };
/* The place where training.offload keeps what a GPU has no room for: nowhere else, in its host's
 * memory, on its host's NVMe. */
enum sc_offload_tier { SC_TIER_NONE, SC_TIER_CPU, SC_TIER_NVME };
/* The ways of tokens to experts: as many to each; what exceeds a fixed capacity dropped, and less
 * padded to it; as it comes. */
enum sc_routing {
	SC_ROUTING_BALANCED,
	/* balanced; a token's experts are neighbours, behind the last token's */
	SC_ROUTING_IN_TURN,
	SC_ROUTING_DROPPED,
	SC_ROUTING_NATURAL
};
/* How the vocabulary layers are spread over stages (Yeung et al., arXiv:2411.05288): each stage has
 * a share; with two barriers, one, or none, the stages in step. */
enum sc_vocab_stages { SC_VOCAB_STAGES_NONE, SC_VOCAB_1, SC_VOCAB_2, SC_VOCAB_INTERLACED };
/* Who steps a matrix of Muon: every rank that has its weights; one of those that its states are
 * spread over (Megatron Core, layer_wise_optimizer.py; microsoft/dion, muon.py); each that has a
 * part of it (Moonlight, arXiv:2502.16982, section 2.3). */
enum sc_muon_sharding { SC_MUON_NONE, SC_MUON_OWNER, SC_MUON_PARTS };
enum sc_trainable { SC_TRAIN_ALL, SC_TRAIN_LORA };
enum sc_lora_targets { SC_LORA_ATTENTION, SC_LORA_ALL }; /* linear layers that have adapters */

/* How the GPUs of a scale-up domain are wired; usual: as boards of the device are. */
enum sc_links { SC_LINKS_USUAL, SC_LINKS_SWITCH, SC_LINKS_MESH, SC_LINKS_CUBE_MESH };

/* So many whole nodes of a mixed cluster with this GPU. */
struct sc_gpu_nodes {
	const char *gpu;
	int64_t count;
};
/* Switches between nodes, from the leaves up: `nodes` hosts hang below one, and its uplinks have 1
 * / oversubscription of the rate that comes up to it. A dragonfly's group is one, too: its uplinks
 * are its global links. */
struct sc_net_tier {
	int64_t nodes;
	double oversubscription;
};
/* GPUs in a torus of rings, innermost dimension first. Lists have a value for all or for each. */
struct sc_torus {
	struct sc_ints dims;         /* GPUs along each; none: no torus */
	struct sc_doubles link_gbps; /* out of a GPU along a dimension, all links */
	struct sc_doubles hop_us;
	double link_eff;        /* share of link_gbps that packets leave */
	double bus_gbps;        /* between a GPU and its network interface */
	double sm_gbps;         /* that one SM moves */
	double engine_sram_mib; /* of an offload engine: what is in flight lies there */
};
/* Who drives a torus. */
enum sc_endpoint_kind {
	SC_ENDPOINT_SMS,    /* kernels: they read each sum's operands from memory again */
	SC_ENDPOINT_ENGINE, /* an engine beside the network (ACE, Rashidi et al., ISCA 2021) */
	SC_ENDPOINT_IDEAL   /* nothing is read, nothing waits */
};
struct sc_endpoint {
	enum sc_endpoint_kind kind;
	int64_t sms;        /* kept for communication, whatever runs */
	double memory_gbps; /* the same */
};
/* One layer of a model that is a table. Per sample, forward; 0 = not given: twice the forward for
 * gradients, half of bytes for what is kept. Weights and their gradients come on top of bytes. */
struct sc_layer_row {
	const char *name;
	double flop, bytes, params;
	double grad_flop, grad_bytes, kept_bytes;
	/* The size of the matrix of its weights, for optimizers that step whole matrices;
	 * positions: of a sample that it is applied to, as pixels of a convolution's output. */
	double outputs, inputs, positions;
};
/* Files of algorithms in MSCCL's XML, by collective; NULL: the library chooses. */
struct sc_algorithm_refs {
	const char *all_reduce, *all_gather, *reduce_scatter, *all_to_all;
};
/* -1 (ints) or NULL = not given; sc_config_resolve fills the defaults of docs/keys.md. */
struct sc_cluster {
	const char *gpu;
	struct sc_structs nodes; /* struct sc_gpu_nodes, in rank order; empty: all have `gpu` */
	int64_t gpus_per_node, nics_per_node, scale_up_gpus;
	double nic_gbit_s;     /* one NIC */
	double nic_latency_us; /* one hop, port to port; -1 = default of the fabric */
	double progress_us;    /* until a thread that moves data between nodes runs; -1 = at once */
	double link_gbps; /* NVLink/xGMI per GPU, one direction, all links; -1 = the device's */
	const char
		*fabric; /* "infiniband", "ethernet", "efa", "omni-path", "slingshot"; or a file */
	const char *topology;           /* a file that says how a node is wired */
	const struct sc_wiring *wiring; /* what stands there; NULL: no file */
	enum sc_links links;
	int sharp; /* 1: the network's switches add */
	struct sc_structs
		tiers; /* struct sc_net_tier, rising nodes; none: nothing is oversubscribed */
	double host_memory_gib, ssd_gib; /* of a node, for embedding tables and training.offload */
	/* 1e9 bytes/s: between a GPU and its host, one direction; of the host's memory; of a node's
	 * SSDs. -1: the device's, no limit, none. */
	double host_link_gbps, host_memory_gbps, ssd_read_gbps, ssd_write_gbps;
	int64_t host_link_gpus;    /* GPUs that share a link to the host */
	double price_usd_gpu_hour; /* -1: not known */
	struct sc_torus torus;
	struct sc_algorithm_refs algorithms;
};
/* Embedding sharding of a DLRM. */
struct sc_sharding_plan {
	const char *plan; /* a plan's file; else the planner makes one */
	enum sc_planner planner;
	/* HugeCTR's planner: memory bandwidth over the network's, by its recipe for the node count
	 * if not given; tables under a size, 1e9 bytes, are data parallel. */
	double bw_ratio, dp_threshold_gb;
	/* Slices of columns are made of tables with more elements (distributed-embeddings). */
	double column_slice_elements;
	/* GPU memory that planners may fill with tables, of each GPU; if not given, what is left of
	 * it after the share and what the software holds. */
	double hbm_gib, hbm_reserve_frac;
};
/* Keys that a DLRM's user knows better than the software's profile. */
struct sc_dlrm_own {
	double host_sample_us; /* CPU time of the input pipeline a sample of a rank */
};
struct sc_parallel {
	int64_t tp, pp, dp, cp, ep, virtual_stages;
	enum sc_schedule schedule;
	bool schedule_chosen;      /* for `auto` */
	const char *schedule_file; /* of SC_SCHED_FILE */
	int auto_among;            /* SC_FLAG << enum sc_schedule, or-ed; less than SC_FLAG: all */
	enum sc_zero sharding;
	bool sequence_parallel, tp_overlap;
	const char *order; /* "tp-cp-ep-dp-pp", innermost first */
	struct sc_ints stage_layers;
	const char *layout;  /* Megatron Core's, "Et*4|(t*4|)*14tmL"; NULL = none */
	int64_t shard_ranks; /* HSDP: ranks weights are spread over, replicas beyond; default all */
	int64_t etp, chimera_replicas, waves;
	int vocab_stages, optimizer_validation;
	bool count_embedding, count_loss;
};
struct sc_offload {
	int optimizer, gradients, weights, activations; /* enum sc_offload_tier */
	double optimizer_fraction;
	int64_t activation_layers; /* of a stage; -1 = all */
	int64_t prefetch_layers;   /* 0: a pass begins when what it reads has come */
	int64_t tiles;             /* of a layer, gathered in turn; below 1: it is gathered whole */
	bool partition_activations; /* checkpoints are divided over tensor-parallel ranks */
};
struct sc_training {
	int64_t global_batch, micro_batch;
	enum sc_precision precision;
	int recompute;            /* enum sc_recompute, or flags of modules */
	int64_t recompute_layers; /* of a stage, with full; -1 = all */
	enum sc_attention attention;
	enum sc_optimizer optimizer;
	enum sc_trainable trainable;
	bool unpadded, moe_overlap;
	bool launch_blocking; /* a launch waits until its kernel has ended: CUDA_LAUNCH_BLOCKING */
	int cuda_graphs;      /* 0, 1 (everything) or flags of scopes */
	double fill_fraction; /* of a sample's seq that are tokens, if unpadded; -1 = not given */
	/* The tokens of one document, as a token sees it, where a sample has several that attend
	 * apart: the sum of squares over the sum; seq if it is one, or not given. */
	int64_t document_tokens;
	double expert_imbalance; /* tokens of the busiest expert rank over the mean; -1 = unset */
	int64_t lora_rank;
	enum sc_lora_targets lora_targets;
	const char *software, *software_version;
	enum sc_fp8_recipe fp8_recipe;
	int64_t bf16_first_layers, bf16_last_layers; /* of the model, beside fp8 and fp4 */
	enum sc_dispatcher moe_dispatcher;
	int routing;
	double grad_worker_frac;
	enum sc_muon_sharding muon_sharding; /* SC_NOT_GIVEN until resolved */
	int64_t factor_update_steps, inv_update_steps;
	int64_t grad_bytes;                /* below 1: as the software has it */
	double moment_bytes, master_bytes; /* below 0: as optimizer and precision have it */
	struct sc_offload offload;
};
/* Concurrent computation and communication. */
struct sc_c3 {
	struct sc_c3_texts policy;
	int64_t channels; /* SC_NOT_GIVEN: what the library takes */
	struct sc_endpoint endpoint;
};
struct sc_straggler {
	struct sc_ints ranks;
	double slowdown;
};
/* The values that were given, newest layer first: the file, then --set and table rows over it. */
struct sc_origins {
	const struct sc_origin *at;
	size_t n;
	const struct sc_origins *older;
};
struct sc_config {
	const char *schema;
	const char *notes;  /* free text: where the case and its measured time come from */
	double measured_ms; /* of an example; 0 = not given; no prediction reads it */
	struct sc_cluster cluster;
	int64_t gpus;
	struct sc_model model;
	struct sc_parallel parallel;
	struct sc_training training;
	struct sc_c3 c3;
	struct sc_sharding_plan sharding;
	struct sc_dlrm_own dlrm;
	struct sc_structs stragglers; /* struct sc_straggler */
	const char *file;             /* it was loaded from, or NULL */
	const struct sc_origins *origins;
};

enum { SC_MAX_GPU_KINDS = 8 };
/* A config with its profiles loaded and every default filled; checked to be consistent. */
struct sc_band;
struct sc_request {
	struct sc_config config;
	struct sc_device device; /* of all GPUs; of a mixed cluster, of its first node */
	double kernel_sm_frac;   /* SMs that c3.endpoint leaves in `device`; 1 = all */
	/* The different ones of a mixed cluster, by first appearance; [0] is a copy of `device`.
	 * Not more than one: all GPUs are alike. */
	const struct sc_device *kinds[SC_MAX_GPU_KINDS];
	size_t n_kinds;
	struct sc_software software;
	struct sc_fabric_profile fabric_profile;
	const struct sc_band *band;               /* core/config/likeness.h */
	struct sc_c3_choice c3[SC_N_C3_FAMILIES]; /* c3.policy, else what the software does */
	int64_t n_micro_batches; /* per data-parallel replica, the last may be partial */
	double last_micro_batch; /* samples in the last one */
	struct sc_warnings warnings;
};

/* The conditions of a habit; every part that is given has to hold. */
struct sc_when {
	int experts, latent, dlrm, mla, mamba, nvlink_domain; /* SC_NOT_GIVEN, or 0 and 1 */
	int gpu_runs, stored_as;                              /* enum sc_dtype, or SC_NOT_GIVEN */
	int precision;         /* enum sc_precision, or SC_NOT_GIVEN */
	double gpu_below_gib;  /* 0: of any memory */
	int64_t gpus_above;    /* 0: any number */
	double nic_gbit_s;     /* 0: of any rate */
	const char *fabric;    /* cluster.fabric, or NULL */
	const char *not_given; /* a key, or NULL */
};
/* The software's value where a request leaves it open: of a piece of config in its profile. */
struct sc_habit {
	struct sc_when when;
	const struct sc_field *field;
	size_t offset; /* in struct sc_config */
	const void *value;
	struct sc_origin origin;
	int stage; /* enum sc_habit_stage */
};
/* The one that holds for the value of `path`, the last of several; NULL: none. */
const struct sc_habit *sc_habit_of(const struct sc_request *request, const char *path);
/* The same, if the request gave no value and has this one. */
const struct sc_habit *sc_habit_taken(const struct sc_request *request, const char *path);

/* sc_field.needs of sc_config_fields: without what a key has no effect. */
enum {
	SC_NEEDS_TRANSFORMER = 1 << 0,
	SC_NEEDS_DLRM = 1 << 1,
	SC_NEEDS_EXPERTS = 1 << 2,
	SC_NEEDS_LORA = 1 << 3,
	SC_NEEDS_LAYERS = 1 << 4,
	SC_NEEDS_TORUS = 1 << 5,
	SC_NEEDS_KFAC = 1 << 6,
	SC_NEEDS_MUON = 1 << 7,
};
extern const struct sc_field sc_config_fields[];

enum { SC_NOT_GIVEN = -1 }; /* also of training.precision, recompute, attention, lora_targets */
struct sc_key_text {
	const char *path, *text; /* "sharding.plan", "plan.json" */
};
/* The place where the value of "parallel.tp" was given, or NULL: a default. */
const struct sc_origin *sc_config_origin(const struct sc_config *config, const char *path);
/* The same, else of a value in the section `path`, else of the table row (it has the path ""). */
const struct sc_origin *sc_config_origin_near(const struct sc_config *config, const char *path);
/* Is any key of the section given? */
bool sc_config_origin_in(const struct sc_config *config, const char *section);
/* The file that the value `ref` of a key names: beside the config, then installed; what was typed
 * is looked for in the working directory first. The error begins with the key. */
int sc_config_file_of(const struct sc_config *config, struct sc_key_text given,
		      struct sc_arena *arena, const char **out, struct sc_err *err);
void sc_config_init(struct sc_config *config); /* everything "not given" */
/* `opts` may be NULL; its origins get every value given, as config->origins does. */
int sc_config_load(const char *path, struct sc_arena *arena, struct sc_config *out,
		   struct sc_err *err);
/* The same of a mapping in memory. */
int sc_config_take(const struct sc_yaml *root, struct sc_arena *arena, struct sc_config *out,
		   struct sc_err *err);
/* One dotted override, as from --set. `from` names its origin in messages.
 * "model=models/x.yaml" and "cluster=clusters/x.yaml" replace the whole section by the file. */
struct sc_setting {
	const char *path, *text, *from;
};
int sc_config_set(struct sc_config *config, const struct sc_setting *set, struct sc_arena *arena,
		  struct sc_err *err);
/* The same for a file whose text is already in a section ("model" or "cluster") of `section`. */
void sc_config_take_section(struct sc_config *config, const char *key,
			    const struct sc_config *section);
/* Profiles (devices, software) are loaded once per catalog and shared by all rows of a table. */
struct sc_catalog;
struct sc_catalog *sc_catalog_create(void);
void sc_catalog_destroy(struct sc_catalog *catalog);
/* Reads what cluster.topology says, as text; a graph goes into cluster->wiring. */
int sc_cluster_parse_topology(const struct sc_source *source, struct sc_arena *arena,
			      struct sc_cluster *out, struct sc_err *err);
/* Sets what is not given of the cluster to what the wiring has. */
void sc_config_take_wiring(struct sc_cluster *cluster, const struct sc_device *device);
/* Fills defaults, loads profiles, checks: sizes that multiply up, heads divisible by tp, layers
 * that split over stages, a family that is known. Errors say where the value was given, else `file`
 * (may be NULL). Thread-safe per catalog; the request's profiles are borrowed from it. */
int sc_config_resolve(const struct sc_config *config, struct sc_catalog *catalog, const char *file,
		      struct sc_request *out, struct sc_err *err);

/* The device of a kind, below sc_request_n_kinds(), which is at least 1. */
static inline const struct sc_device *sc_request_device(const struct sc_request *request,
							size_t kind)
{
	return kind == 0 ? &request->device : request->kinds[kind];
}

static inline size_t sc_request_n_kinds(const struct sc_request *request)
{
	return request->n_kinds > 1 ? request->n_kinds : 1;
}

/* The kind of an entry of cluster.nodes. */
size_t sc_request_kind_of(const struct sc_request *request, const struct sc_gpu_nodes *nodes);
/* GPUs of a node that the request uses. */
static inline int64_t sc_request_node_gpus(const struct sc_request *request)
{
	const int64_t node = request->config.cluster.gpus_per_node, gpus = request->config.gpus;

	return gpus < node ? gpus : node;
}
/* Dense peak of a GPU at the precision of the request, whatever is kept of it for communication. */
double sc_request_peak_tflops(const struct sc_request *request);
enum sc_dtype sc_precision_dtype(enum sc_precision precision); /* of the GEMMs */
/* The type of weights and activations in memory: fp8 and fp4 GEMMs read and write bf16 tensors. */
static inline enum sc_dtype sc_storage_dtype(enum sc_precision precision)
{
	const enum sc_dtype dtype = sc_precision_dtype(precision);

	return dtype >= SC_FP8 ? SC_BF16 : dtype;
}
/* Gradient bytes an element in data-parallel reductions: the software's, no less than weights'. */
double sc_grad_bytes(const struct sc_request *request);
/* Bytes of an element of an optimizer's moments. */
double sc_moment_bytes(const struct sc_request *request);
/* Bytes of an element of the optimizer's copy of weights narrower than fp32; 0: it has none. */
double sc_master_bytes(const struct sc_request *request);
/* Bytes of an element of what the optimizer updates: that copy, or the weights. */
double sc_updated_bytes(const struct sc_request *request);
/* The state that parallel.sharding spreads over data-parallel ranks, and when it moves. */
struct sc_sharding_rule {
	bool states, gradients, weights;
	bool scatters; /* gradients are reduce-scattered, else all-reduced */
	/* For every micro-batch weights are gathered, dropped after forward and gathered again for
	 * backward, and gradients reduced; else weights are gathered for the first, and gradients
	 * summed up whole. */
	bool each;
	double ranks, expert_ranks; /* that a shard each is on */
};
struct sc_sharding_rule sc_sharding_rule(const struct sc_request *request);
/* Owners step what is sharded, unless another way is asked for. */
enum sc_muon_sharding sc_muon_sharding(const struct sc_request *request);
extern const struct sc_name sc_recompute_names[]; /* of training.recompute */
/* Does backward run this module again? Selective recomputation of software without a policy of its
 * own is that of attention's core. */
bool sc_recomputes(const struct sc_request *request, int module);
/* With full recomputation the share of the layers that do so. */
double sc_recompute_frac(const struct sc_request *request);
/* Layers of each of pp * virtual_stages chunks, chunk-major (chunk * pp + stage). Layers that do
 * not split evenly: the first chunks have one more, if the software does not count the ends. */
void sc_stage_layers(const struct sc_request *request, int64_t *layers);

static inline bool sc_stages_are_balanced(const struct sc_parallel *par)
{
	return par->stage_layers.n == 1 && par->stage_layers.at[0] == SC_STAGES_BALANCED;
}

enum { SC_N_ORDER_AXES = 5 };
/* "tp-cp-ep-dp-pp", innermost first, as indices into that very list. Axes that are not named come
 * last. False if a name is unknown or twice; *n_named (may be NULL) counts the named. */
bool sc_order_parse(const char *order, int axes[SC_N_ORDER_AXES], int *n_named);
