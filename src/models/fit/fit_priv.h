/* Inside of the fit of kernels and collectives: rows (fit_rows.c) as shapes of each kind
 * (fit_kinds.c, fit_rows.c), the profile under change (fit_model.c). */
#pragma once

#include <string.h>

#include "base/csv_rows.h"
#include "models/fit/fit_solve.h"

enum {
	SC_FIT_MAX_SOURCES = 64,
	SC_FIT_MAX_ORIGINS = 64,
	SC_FIT_MAX_NETWORKS = 256,
	SC_FIT_MAX_CURVES = 256,
	SC_FIT_MAX_GEMM_CURVES = 1024
};
#define SC_FIT_MAX_SIZE 1e12

/* The cells of a row, of any kind; a kind reads some of them. */
struct sc_fit_cells {
	double time_us;
	const char *source, *op_name, *pass_name;
	int op, pass, dtype, kv_dtype, regime, includes, variant, causal, optimizer, sorted, warm,
		computes; /* -1: not said */
	double batch, m, n, k, heads, seq, head_dim, kv_heads, seq_kv, kv_len, rows, cols;
	double params, bytes, tables, dim, pooling, zipf, unique_rows, longest_run, launches;
	double alone_us, beside_frac, blocks, comm_blocks, comm_load;
	double compute_us, comm_us, gpus, ctas, ranks, nodes, gpus_per_node;
	const char *kernel, *collective, *sweep, *algo, *library, *intra, *inter;
	int rule, part, phase, framework, routing, weights, module;
	double tokens, k_heads, k_dim, v_heads, v_dim, conv, chunk, qk_dim, experts, topk, hidden,
		inter_dim, ep, tp;
};
struct sc_fit_table {
	struct sc_csv csv;
	const struct sc_fit_opts *opts;
	struct sc_csv_rows rows;
	struct sc_fit_cells cells;      /* of the row that is read now */
	const struct sc_device *device; /* of that row */
	struct sc_arena *arena;
	struct sc_err *err;
	size_t row;
	bool is_of_pairs; /* interference: a table of pairs, as c3 --measured reads */
};
/* The place where a row's time was taken: an op's call, in one pass, in a source's program. */
struct sc_fit_origin {
	unsigned source;
	const char *op_name, *pass;
	const char *label; /* the source, or "source op pass" where it has several */
};
struct sc_fit_set {
	struct sc_fit_row *rows;
	size_t n, n_shapes;
	const char *source[SC_FIT_MAX_SOURCES];
	size_t n_sources;
	struct sc_fit_origin origin[SC_FIT_MAX_ORIGINS];
	size_t n_origins;
	const struct sc_device *device[SC_FIT_MAX_FOLDS]; /* of the rows, as loaded */
	size_t n_devices;
	struct sc_request *requests; /* collective: one a network */
	size_t n_requests;
	size_t n_other, n_empty, n_forced, n_bound;
};
/* How a kind's rows are read: columns, the first n_dims of them its sizes, and what they make. */
struct sc_fit_reader {
	const struct sc_field *cells;
	size_t n_dims;
	/* NULL: nothing beside (launches), or by fit_rows.c (collectives) */
	int (*read)(const struct sc_fit_table *table, struct sc_fit_row *out);
};
/* Readers of linear, sparse and latent attention and of experts (fit_modules.c). */
const struct sc_fit_reader *sc_fit_module_reader(enum sc_fit_kind kind);
const struct sc_fit_reader *sc_fit_reader_of(const struct sc_fit_table *table);
int sc_fit_table_init(const struct sc_fit_opts *opts, struct sc_arena *arena,
		      struct sc_fit_table *out, struct sc_err *err);
int sc_fit_set_read(struct sc_fit_table *table, struct sc_fit_set *out);
bool sc_fit_of_machines(const struct sc_fit_opts *opts);

/* A coefficient that is fitted: a key of a profile, and bounds that are narrower than what a file
 * may hold, where the formulas mean something (fit_kinds.c). */
struct sc_fit_coef {
	const char *key;
	double lower, upper;
	/* bits: of two not told apart, the one to leave as it was; 0 in the profile is off */
	enum { SC_FIT_MINOR = 1, SC_FIT_MAY_BE_OFF = 2 } how;
	/* It starts here where rows of several machines share it, so none left out has a say. */
	double anew;
};
/* Coefficients of a section of device or fabric; ended by a NULL key; NULL: none. */
const struct sc_fit_coef *sc_fit_coefs_of(const char *section);
extern const char *const sc_fit_sections[SC_N_FIT_KINDS]; /* NULL of collectives */
/* A key that stands at that value, or at 0, where rows of several devices take part. */
struct sc_fit_fixed {
	const char *section, *key;
	double at;
};
extern const struct sc_fit_fixed sc_fit_fixed[]; /* ended by a NULL key */

/* The profile whose coefficients change. */
struct sc_fit_model {
	enum sc_fit_kind kind;
	struct sc_device device;   /* its coefficients are those of all `devices` */
	struct sc_device *devices; /* of the rows */
	size_t n_devices;
	struct sc_fabric_profile profile; /* lists are copies */
	struct sc_request *requests;
	struct sc_fabric *fabrics;
	size_t n_fabrics;
	/* An origin's time before the kernel; the shortest time that is seen at all, since the host
	 * is not back earlier. */
	double launch_us[SC_FIT_MAX_ORIGINS], floor_us[SC_FIT_MAX_ORIGINS];
};
/* A fit under way. */
struct sc_fit_work {
	const struct sc_fit_opts *opts;
	struct sc_fit_table table;
	struct sc_arena *arena;
	struct sc_fit_set set;
	struct sc_fit_model model;
	struct sc_fit_params params;
	struct sc_device start; /* --device */
	size_t n_folds;         /* or groups */
};
int sc_fit_model_init(struct sc_fit_work *work, struct sc_err *err);
/* Coefficients as another device's profile has them. */
void sc_fit_model_start(struct sc_fit_model *model, const struct sc_device *device);
/* Sets the model to the parameters' values, and what is made from them. */
void sc_fit_model_set(struct sc_fit_model *model, const struct sc_fit_params *params);
/* `spread_frac`: NULL, or gets the model's spread. */
double sc_fit_predict_us(const struct sc_fit_model *model, const struct sc_fit_row *row,
			 double *spread_frac);
/* The coefficients of the kind's sections, those of launches (from the rows), at their starts. */
void sc_fit_params_list(struct sc_fit_work *work, const struct sc_fit_row *const *rows, size_t n,
			struct sc_fit_params *out);
/* An error where a pattern of --keep names none of work->params. */
int sc_fit_check_keep(const struct sc_fit_work *work, struct sc_err *err);

/* fit_sweep.c: Collectives. *forced: not of NCCL's own choice, nothing was filled. */
int sc_fit_sweep_read(const struct sc_fit_table *table, struct sc_fit_set *set,
		      struct sc_fit_row *out, bool *forced);
static inline bool sc_fit_same_text(const char *a, const char *b) /* NULL is only like NULL */
{
	return a == b || (a && b && strcmp(a, b) == 0);
}
