/* A layer as a list of parts, in the order that they run forward. All that is said of a layer is a
 * loop over them: its operations forward and backward, what is run again, parameters,
 * multiply-adds, what is kept from forward to backward. */
#pragma once

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
	SC_PART_JOIN,   /* a sub-layer's output, dropped out, with its bias, onto the residual */
	SC_PART_ACTIVATION,
	/* A mixture has the router; the experts' first product, with what comes before; what is
	 * between; the second one, to the end. */
	SC_PART_ROUTER,
	SC_PART_EXPERTS_UP,
	SC_PART_EXPERTS_ACTIVATION,
	SC_PART_EXPERTS_DOWN,
	SC_PART_LATENT, /* moves a token to the width that experts work on, and back */
	SC_PART_GATE,   /* attention's output times its gate */
	/* Linear attention has the convolution of queries, keys and values, and what runs along the
	 * sequence, with its norms. */
	SC_PART_CONV,
	SC_PART_SCAN,
	/* A diffusion transformer has a product that no tensor-parallel region has, of patches,
	 * texts and what norms are modulated by; a sub-layer's output, gated, onto the residual;
	 * streams or branches made one; attention to a text. */
	SC_PART_APART,
	SC_PART_GATED_JOIN,
	SC_PART_CONCAT,
	SC_PART_CROSS,
	SC_N_PART_KINDS
};
enum {
	PART_WHOLE = 1,      /* what it keeps is divided by sequence parallelism alone */
	PART_ADAPTED = 2,    /* has LoRA adapters, if any have */
	PART_REPLICATED = 4, /* every tensor-parallel rank has all of it */
	PART_ENTERS =
		8, /* begins a tensor-parallel region, with others that follow and read its input */
	PART_LEAVES = 16, /* ends a region */
	PART_INPUT = 32,  /* nothing asks for its input's gradient */
	PART_ONCE = 64,   /* works once a sample, behind an activation */
};
struct part {
	enum sc_part_kind kind;
	enum sc_op_name name; /* a product's; its gradients' names follow */
	/* A product's outputs and inputs on this rank; elements of a token that a norm or an
	 * addition works on, and a norm behind it; those of an activation, and what a token takes
	 * of it on all ranks. */
	double n, k;
	double kept; /* elements a token from forward to backward, on all tensor-parallel ranks */
	int again;   /* SC_RECOMPUTE_ flags with which it runs again, and keeps nothing but sums */
	int flags;   /* PART_ */
	int scope;   /* SC_GRAPH_ flags from here on; 0: as before */
	double mask; /* as kept, in bytes of dropout's masks */
	double joined; /* products side by side in one, as gate and up */
	double copies; /* products alike on this rank, as experts' */
	/* a token's multiply-adds on all ranks; keys that several compute count once */
	double macs;
	double params;       /* beside a product's weights and biases */
	enum sc_mixer mixer; /* linear or sparse attention's */
	double share;        /* of the tokens, beside those of other streams; 0: all */
};
/* The parts of a layer that are listed so far. */
struct part_list {
	const struct dims *x;
	struct part *at;
	int n;
};
struct part *part_put(struct part_list *to, struct part part);
struct part *put_linear(struct part_list *to, struct part part);
/* Puts linear attention between its layer's norm and the residual's addition. */
void put_linear_attention(struct part_list *to, enum sc_mixer mixer);
/* Put sparse attention behind its projections, and before them what its indexer multiplies. */
struct part *put_sparse(struct part_list *to, enum sc_mixer mixer);
void put_indexer(struct part_list *to);
/* Puts compressed attention whole, between its layer's norm and the residual's addition. */
void put_compressed(struct part_list *to, enum sc_mixer mixer);
/* Returns how many keys a token attends to on average of those in reach: fewer early if causal. */
double mean_keys(double reach, double s, bool causal);
/* Returns a token's multiply-adds with keys, its indexer's among them, on all ranks. */
double sparse_macs(const struct dims *x, enum sc_mixer mixer, bool causal);
/* Put a layer of a diffusion transformer, and what comes before its layers, and behind them. */
void put_dit_layer(struct part_list *to, enum sc_mixer mixer);
void put_dit_lead(struct part_list *to);
void put_dit_tail(struct part_list *to);
enum { SC_MAX_PARTS = 32 };
/* Lists the parts of a layer of this kind; returns how many. */
int sc_parts_of(const struct dims *x, int kind, struct part out[SC_MAX_PARTS]);
