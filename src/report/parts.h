/* Parts that reports share: of documents, whose keys keep their names, of texts, and names of
 * enums. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/json_out.h"
#include "base/strbuf.h"
#include "core/graph/cost.h"
#include "predict/predict.h"
#include "study/explain/explain.h"
#include "study/sweep/run_cost.h"
#include "study/validate/validate.h"

/* The standing of a result, which colours a page's first sentence; SC_STANDS: there is none. */
enum sc_standing { SC_STANDS_WELL, SC_STANDS_FAIR, SC_STANDS_BADLY, SC_STANDS };
void sc_json_verdict(struct sc_json *json, enum sc_standing standing, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The GPUs, the cluster and the model of a config before it is resolved, as "config". */
void sc_json_base(struct sc_json *json, const struct sc_config *config);
/* The same keys of a resolved config, with its split and its hash. */
json_t *sc_json_request(struct sc_json *json, const struct sc_request *request);

/* The keys of a reading that predictions and replays have, into `object`. */
void sc_json_breakdown(struct sc_json *json, json_t *object, const struct sc_reading *reading);
/* The key `warnings` of the document. */
void sc_json_warnings(struct sc_json *json, const struct sc_warnings *warnings);

/* The table of a reading's time by owner, which predictions and replays have. */
void sc_text_breakdown(const struct sc_reading *reading, struct sc_strbuf *out);

/* Head lines that other reports share: "gpt, 48 layers, ...", "64 x a100-sxm-80gb, 8 a node" and
 * "tp 8, pp 1, ...". */
#define SC_TEXT_SEARCH "none of these settings fits: stepcast search looks for a split that does"
/* "60.1 of 80.0 GiB a GPU", with the hosts; first of all "Does not fit: ", where it does not. */
void sc_text_memory(const struct sc_memory *memory, struct sc_strbuf *out);
/* `text` with lines of at most `width` characters, for terminals. A line breaks before a column of
 * its right half (two blanks stand before a column), else at a blank; what is broken off stands
 * below the last column of the left half. A word that is longer stays whole. */
void sc_text_fold(const char *text, size_t width, struct sc_strbuf *out);
void sc_text_params(double n, struct sc_strbuf *out); /* as "174.6 B" */
/* `params`: NULL where nothing was predicted. */
void sc_text_model(const struct sc_config *config, const struct sc_model_params *params,
		   struct sc_strbuf *out);
void sc_text_split(const struct sc_request *request, struct sc_strbuf *out);
/* `gpu`: what all of them are; NULL: as its nodes say. */
void sc_text_cluster(const struct sc_config *config, const char *gpu, struct sc_strbuf *out);

/* 0 where there is no whole. */
static inline double sc_share_pct(double part, double whole)
{
	return whole > 0 ? 100.0 * part / whole : 0;
}

/* "  name of rank 3" in a column of `most` characters: the name without result, namespaces and
 * parameters; of a longer one the begin and the end, in which kernels of one library differ. */
void sc_text_symbol(const char *what, size_t most, struct sc_strbuf *out);
/* Four figures of a small number, all of a large one in groups of three. */
void sc_text_grouped(double number, struct sc_strbuf *out);
/* A blank and a column; "-" where the value is not known. */
void sc_text_known(double value, int width, int n_digits, struct sc_strbuf *out);
/* The unit in which people read a time so long. */
struct sc_time_unit {
	const char *name;
	double ms;
};
struct sc_time_unit sc_time_unit_of(double ms);
void sc_text_bytes(double bytes, struct sc_strbuf *out); /* "32 MiB" */
void sc_text_ms(double ms, struct sc_strbuf *out);       /* in that unit: "30.3 s", "22,199 days" */
/* Lines: of a step, and of a run where one was asked for. */
void sc_text_costs(const struct sc_run_cost *cost, struct sc_strbuf *out);
/* The keys step_cost and, where a run was asked for, run_cost. */
void sc_json_cost(struct sc_json *json, json_t *parent, const struct sc_run_cost *cost);
/* A table's cell or a key's value as JSON: a number, true or false where it reads so, else text. */
void sc_json_cell(struct sc_json *json, json_t *parent, const char *name, const char *cell);

/* Words for the enums of a prediction, as people read them. */
extern const char *const sc_owner_labels[]; /* "exposed communication" */
extern const char *const sc_reason_names[]; /* of enum sc_reason */
extern const char *const sc_node_kind_names[];
extern const char *const sc_lane_kind_names[];

/* A share of the iteration, 0 where it is only what rounding left of sums and differences. */
double sc_without_dust(double ms, double iteration_ms);

/* The parts of the memory of one GPU, in the order they are shown; total and capacity apart. */
enum { SC_N_MEMORY_PARTS = 6 };
struct sc_memory_part {
	const char *name; /* "weights": the JSON key and the label */
	size_t offset;    /* of its GiB in struct sc_memory */
};
extern const struct sc_memory_part sc_memory_parts[SC_N_MEMORY_PARTS];
double sc_memory_part_gib(const struct sc_memory *memory, size_t part);
