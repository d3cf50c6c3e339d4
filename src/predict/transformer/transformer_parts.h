/* A layer as a list of parts, in the order that they run forward. All that is said of a layer is a loop over them: its
 * operations forward and backward, what is run again, parameters, multiply-adds, what is kept from forward to backward. */
#ifndef SC_PREDICT_TRANSFORMER_PARTS_H
#define SC_PREDICT_TRANSFORMER_PARTS_H

#include "core/config/config.h"
#include "predict/op_names.h"

struct dims;

enum sc_part_kind {
	SC_PART_NORM,
	SC_PART_LINEAR,
	SC_PART_ROTARY,
	SC_PART_ATTENTION,
	SC_PART_INNER,  /* a product whose input and output are split alike */
	SC_PART_SPARSE, /* attention to keys that its indexer chooses */
	SC_PART_JOIN, /* dropout of a sub-layer's output with its bias, and the residual's addition */
	SC_PART_ACTIVATION,
	/* A mixture: the router; what comes before and with the experts' first product; between; from the second one on. */
	SC_PART_ROUTER,
	SC_PART_EXPERTS_UP,
	SC_PART_EXPERTS_ACTIVATION,
	SC_PART_EXPERTS_DOWN,
	SC_PART_LATENT, /* a token to the width that experts work on, and back */
	SC_PART_GATE,   /* attention's output times its gate */
	/* Linear attention: the convolution of queries, keys and values; what runs along the sequence, with its norms. */
	SC_PART_CONV,
	SC_PART_SCAN,
	SC_N_PART_KINDS
};
enum {
	PART_WHOLE = 1,      /* what it keeps is divided by sequence parallelism alone */
	PART_ADAPTED = 2,    /* has LoRA adapters, if any have */
	PART_REPLICATED = 4, /* every tensor-parallel rank has all of it */
	PART_ENTERS =
		8, /* begins a tensor-parallel region, with those that follow and read the same input */
	PART_LEAVES = 16, /* ends it */
};
struct part {
	enum sc_part_kind kind;
	enum sc_op_name name; /* of a product; its gradients' names follow */
	/* A product's outputs and inputs on this rank; elements of a token that a norm or an addition works on, and a norm
	 * behind it; those of an activation, and what a token takes of it on all ranks. */
	double n, k;
	double kept; /* elements a token from forward to backward, of all tensor-parallel ranks */
	int again;   /* SC_RECOMPUTE_ flags with which it runs again, and keeps nothing but sums */
	int flags;   /* PART_ */
	int scope;   /* SC_GRAPH_ flags from here on; 0: as before */
	double mask; /* as kept, in bytes of dropout's masks */
	double joined; /* products side by side in one: gate and up */
	double copies; /* of a product on this rank: experts */
	double macs; /* multiply-adds a token on all ranks; keys that several compute count once */
	double params;       /* but a product's weights and biases */
	enum sc_mixer mixer; /* of linear and of sparse attention's */
};
/* A layer's parts until now. */
struct part_list {
	const struct dims *x;
	struct part *at;
	int n;
};
struct part *part_put(struct part_list *to, struct part part);
struct part *put_linear(struct part_list *to, struct part part);
/* Linear attention, between its layer's norm and the residual's addition. */
void put_linear_attention(struct part_list *to, enum sc_mixer mixer);
/* Sparse attention behind its projections; before them what its indexer multiplies. */
struct part *put_sparse(struct part_list *to, enum sc_mixer mixer);
void put_indexer(struct part_list *to);
/* Compressed attention whole, between its layer's norm and the residual's addition. */
void put_compressed(struct part_list *to, enum sc_mixer mixer);
/* Keys that a token attends to, of those that it reaches back: fewer at the begin of s where attention is causal. */
double mean_keys(double reach, double s, bool causal);
/* A token's multiply-adds with keys, its indexer's among them, on all ranks. */
double sparse_macs(const struct dims *x, enum sc_mixer mixer, bool causal);
enum { SC_MAX_PARTS = 32 };
/* Of a layer of this kind; returns how many. */
int sc_parts_of(const struct dims *x, int kind, struct part out[SC_MAX_PARTS]);

#endif
