/* One training step of a model that is a table of layers, on GPUs that are alike and all do the
 * same: forward in order, backward in reverse, gradients reduced in buckets beside it or at its
 * end, and the optimizer, which steps all at once, or each bucket before its rows' next forward,
 * which then waits for that bucket alone. */
#pragma once

#include "core/config/config.h"
#include "models/memory.h"
#include "predict/block.h"
#include "predict/workload.h"

/* A run of rows whose gradients are reduced together, the last row's first. */
struct sc_layer_bucket {
	struct sc_block forward, backward, update; /* update: with software.layer_updates */
	size_t last_row, n_rows;                   /* last_row, last_row - 1, ... */
	struct sc_collective_shape shape;
};
struct sc_layers {
	const struct sc_request *request;
	struct sc_arena *arena;
	struct sc_fabric fabric;
	struct sc_block_env env;
	struct sc_span span;       /* all ranks, which reduce gradients */
	struct sc_block optimizer; /* where it steps all weights at once */
	struct sc_layer_bucket *buckets;
	size_t n_buckets;
	double params, flop; /* flop: forward and backward of a sample */
};

/* Prepares a request. Strings and arrays live in the arena of the scratch; the rest needs
 * sc_layers_release. */
int sc_layers_init(struct sc_layers *layers, const struct sc_setup *setup, struct sc_err *err);
void sc_layers_release(struct sc_layers *layers);

void sc_layers_memory(const struct sc_request *request, struct sc_memory *out); /* of a GPU */
static inline const struct sc_layer_row *sc_layers_row(const struct sc_layers *layers, size_t row)
{
	return (const struct sc_layer_row *)layers->request->config.model.rows.at + row;
}

/* Returns a row's kernel for the samples of a micro-batch. */
struct sc_op sc_layers_op(const struct sc_layers *layers, size_t row, bool backward);
