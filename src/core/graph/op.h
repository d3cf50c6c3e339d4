/* The work of a kernel or a collective: kinds and shapes, no times. */
#pragma once

#include <stdbool.h>

#include "base/fields.h"

enum sc_dtype { SC_FP32, SC_TF32, SC_FP16, SC_BF16, SC_FP8, SC_FP4, SC_N_DTYPES };
extern const struct sc_name sc_dtype_names[];
extern const struct sc_name sc_load_names[]; /* of enum sc_load: step, sustained, burst */
double sc_dtype_bytes(enum sc_dtype dtype);

enum sc_op_kind {
	SC_OP_GEMM,      /* m x k times k x n, `batch` times */
	SC_OP_ATTENTION, /* fused (flash) */
	SC_OP_ROWWISE,   /* elementwise, norms, softmax, copies: bytes decide */
	SC_OP_OPTIMIZER,
	SC_OP_EMBEDDING, /* lookups of several tables in one kernel, or the update of their rows */
	SC_OP_LAYER,     /* of a table: FLOP and bytes alone are known */
	SC_OP_SCAN,      /* linear attention: a state for each head that goes along the sequence */
	SC_OP_CONV,      /* causal, along the sequence, of each channel by itself */
	SC_OP_SPARSE,    /* attention to keys that are chosen, and their choice */
	SC_OP_COLLECTIVE,
	SC_OP_HOST,
	SC_N_OP_KINDS
};

/* How long a device has worked, which its clock depends on: a whole run; a kernel alone for a
 * second, or some ms. */
enum sc_load { SC_LOAD_RUN, SC_LOAD_SECOND, SC_LOAD_BURST };

struct sc_gemm_shape {
	double batch, m, n, k; /* m = rows of the output */
	bool accumulate;       /* beta = 1: reads C */
	bool bmm;
	bool sums_rows; /* a weight gradient: k counts the rows of both operands (models/gemm.c) */
	bool block_scaled; /* operands have a scale for each block of k, multiplied in the kernel */
	bool row_scaled; /* in fp8 with one scale a tensor or a row, as serving's kernels have it */
	enum sc_load load;
};
struct sc_attention_shape {
	double batch, heads, kv_heads, seq_q, seq_kv, head_dim;
	bool causal, backward;
	/* Keys that a query reaches back, itself included; 0 = all. Keys that are not causal end
	 * `gap` tokens before the first query then. */
	double window, gap;
	/* The size of an element of the keys and values, where one new token a sequence reads them
	 * from a cache; 0 = no cache: they were made by the same pass. */
	double cache_bytes;
};
struct sc_rowwise_shape {
	double read_bytes, write_bytes;
	double reread_bytes; /* read again, if what is in flight does not stay in the last cache */
	double rows, cols;
	double row_sm_us; /* an SM's time for a row that nothing hides: its reduction */
	double flop;
	int n_kernels; /* how many launches it stands for */
};

/* Forward gathers and pools rows; backward adds the outputs' gradients to the rows that were looked
 * up and steps the optimizer; prefetch brings rows from the host into the cache. */
enum sc_embedding_pass {
	SC_EMBEDDING_FORWARD,
	SC_EMBEDDING_BACKWARD,
	SC_EMBEDDING_PREFETCH,
	SC_N_EMBEDDING_PASSES
};
/* Sums over the tables of the kernel; models/embedding_kernel.h makes them. A row's bytes are
 * counted where they are found: in memory, in the last cache, beyond PCIe. */
struct sc_embedding_shape {
	enum sc_embedding_pass pass;
	double tables;
	double lookups;      /* with repeats */
	double unique_rows;  /* distinct rows */
	double outputs;      /* pooled rows */
	double hbm_bytes;    /* of rows, in whole 32-byte sectors, read or written */
	double l2_bytes;     /* of rows, and of gradients gathered */
	double stream_bytes; /* offsets, indices, outputs: in order */
	double host_bytes;   /* over PCIe, one direction's worth */
	double ssd_bytes;
	double sort_keys;   /* indices sorted, to bring the lookups of a row together */
	double longest_run; /* lookups of the most popular row: their gradients are one sum */
	/* Forward: what bags wait for rows, one after another; all together, and the longest. */
	double wait_cycles, longest_wait_cycles;
	double copy_bytes; /* backward: of gradients, from kernel to kernel, in order */
	double n_kernels;  /* beside the sort; 0 = 1 */
};

struct sc_layer_shape {
	double flop, bytes;
};

/* All keys, of latents; the best of all (DSA); of compressed ones, beside a window (CSA); all
 * compressed ones beside a window (HCA); the best blocks (MSA). */
enum sc_sparse_kind {
	SC_SPARSE_ALL,
	SC_SPARSE_TOP_K,
	SC_SPARSE_COMPRESSED_TOP_K,
	SC_SPARSE_COMPRESSED,
	SC_SPARSE_BLOCKS,
	SC_N_SPARSE_KINDS
};
struct sc_sparse_shape {
	enum sc_sparse_kind kind;
	double batch, seq, past;       /* new tokens of each sequence, and those before them */
	double heads, dims;            /* dims: of a key and of a value, of one head */
	double entry_bytes;            /* of the keys and values of a token, as they are gathered */
	double top_k;                  /* 0: all in reach */
	double compression;            /* tokens that a compressed key stands for; 0 = 1 */
	double window;                 /* keys beside the chosen; 0: none */
	double index_heads, index_dim; /* of the indexer; 0: none */
	bool cached;                   /* new tokens read a cache: 1 or a few of a sequence */
	bool backward;
};

/* How a state follows from the one before: decays, and a token adds to it (Mamba-2's SSD, lightning
 * attention); first loses what it has of the token's key (Gated DeltaNet); the same with a decay
 * for each channel (Kimi Delta Attention). */
enum sc_scan_rule {
	SC_SCAN_DECAY,
	SC_SCAN_DELTA,
	SC_SCAN_CHANNEL_DELTA,
	SC_SCAN_SELECTIVE, /* each channel's state by its own decays, element by element (Mamba) */
	SC_N_SCAN_RULES
};
/* Kernels over all chunks, as flash-linear-attention has them; vLLM's on Hopper, on Blackwell. */
enum sc_scan_kernel { SC_SCAN_CHUNKED, SC_SCAN_FUSED, SC_SCAN_FUSED_BLACKWELL, SC_N_SCAN_KERNELS };
struct sc_scan_shape {
	enum sc_scan_rule rule;
	enum sc_scan_kernel kernel;
	double batch, seq;       /* sequences; tokens of each on this GPU */
	double k_heads, v_heads; /* keys and queries are shared by v_heads / k_heads (Mamba-2:
				    groups, heads) */
	double k_dim,
		v_dim; /* the state of a head is k_dim x v_dim (Mamba-2: state size, head size) */
	double chunk;  /* tokens; 0: 64, of SC_SCAN_DECAY 128 */
	bool backward;
	bool recurrent; /* a few new tokens a sequence, each a step of a state read and written */
	enum sc_load load;
};
/* In CUDA, a block for each channel of a sequence (Dao's causal-conv1d); in Triton, by blocks of
 * tokens and channels. */
enum sc_conv_kernel { SC_CONV_BLOCK, SC_CONV_TILED, SC_CONV_UPDATE, SC_N_CONV_KERNELS };
struct sc_conv_shape {
	enum sc_conv_kernel
		kernel; /* SC_CONV_UPDATE: a new token a sequence, of a state that is kept */
	double batch, seq, channels, width;
	int n_kernels; /* that share the channels; 0 = 1 */
	bool backward;
	enum sc_load load;
};

enum sc_collective {
	SC_ALL_REDUCE,
	SC_ALL_GATHER,
	SC_REDUCE_SCATTER,
	SC_BROADCAST,
	SC_ALL_TO_ALL,
	SC_SEND_RECV,
	SC_REDUCE, /* to one rank */
	SC_GATHER,
	SC_SCATTER,
	SC_N_COLLECTIVES
};
extern const char *const sc_collective_names[]; /* "all_reduce"; NULL-ended */
struct sc_collective_shape {
	enum sc_collective kind;
	double bytes; /* nccl-tests size: gathered size for gathers, input for scatters */
	enum sc_dtype dtype;
};
struct sc_op {
	enum sc_op_kind kind;
	enum sc_dtype dtype;
	union {
		struct sc_gemm_shape gemm;
		struct sc_attention_shape attention;
		struct sc_rowwise_shape rowwise; /* and optimizer */
		struct sc_embedding_shape embedding;
		struct sc_layer_shape layer;
		struct sc_scan_shape scan;
		struct sc_conv_shape conv;
		struct sc_sparse_shape sparse;
		struct sc_collective_shape collective;
	} u;
};

/* How long a collective takes between so many GPUs: all that recording asks of planning. */
struct sc_collective_time {
	/* Alone, its ranks on as few nodes as can be. */
	double (*us)(const void *network, const struct sc_collective_shape *shape, int n_ranks);
	const void *network; /* borrowed */
};
