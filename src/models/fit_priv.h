/* Inside of the fit: rows as shapes (fit_rows.c, fit_sweeps.c), the profile under change and its
 * coefficients (fit_model.c, fit_coefs.c), the solver (fit_solve.c). */
#ifndef SC_MODELS_FIT_PRIV_H
#define SC_MODELS_FIT_PRIV_H

#include "base/vec.h"
#include "core/config/config.h"
#include "models/collective.h"
#include "models/fit.h"
#include "models/interference.h"

enum {
	SC_FIT_MAX_OPS = 2, /* kernels of one row: a backward GEMM is two */
	SC_FIT_MAX_DIMS = 4,
	SC_FIT_MAX_PARAMS = 160,
	SC_FIT_NO_FOLD = SC_FIT_MAX_FOLDS, /* never held out */
	SC_FIT_ALL,                        /* no fold: all rows */
	SC_FIT_MAX_SOURCES = 64,
	SC_FIT_MAX_ORIGINS = 64,
	SC_FIT_MAX_NETWORKS = 256,
	SC_FIT_MAX_CURVES = 256,
	SC_FIT_MAX_GEMM_CURVES = 1024
};

/* A measured time and what was timed. */
struct sc_fit_row {
	struct sc_op op[SC_FIT_MAX_OPS];
	unsigned n_ops;
	unsigned fabric; /* collective: index of the network */
	struct sc_span span;
	int only;                      /* as struct sc_fabric asks */
	double launches;               /* host */
	struct sc_interfere_seen seen; /* interference */
	double time_us;
	double weight;   /* 1 on average */
	double bound_us; /* no machine of these peaks is faster */
	double dim[SC_FIT_MAX_DIMS];
	unsigned source, origin, device; /* indices in the set */
	const char *pass, *op_name;      /* NULL where the table has none */
	const char *warning;             /* NULL: none */
	const char *group;               /* --leave-out: the cell; --hold-out: NULL or not */
	uint64_t shape;                  /* equal for rows of one shape: a fold never splits them */
	unsigned fold;
};
/* How the rows of one kind are read. */
struct sc_fit_table {
	const struct sc_csv *csv;
	const struct sc_fit_opts *opts;
	const struct sc_device *device;
	struct sc_arena *arena;
	struct sc_err *err;
	size_t row; /* that is read now */
};
/* Where a row's time was taken: the call of one op, in one pass, in a source's program. */
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
	const char *const *dim_names; /* NULL-ended */
	struct sc_request *requests;  /* collective: one a network */
	size_t n_requests;
	size_t n_other, n_empty, n_forced, n_bound;
};
int sc_fit_set_read(struct sc_fit_table *table, struct sc_fit_set *out);
bool sc_fit_of_machines(const struct sc_fit_opts *opts);
/* The row table->row as set->rows[set->n]. *taken: false where it has no time, or is a collective with
 * waiting or of an algorithm that no model is for; the set counts which. */
int sc_fit_row_read(struct sc_fit_table *table, struct sc_fit_set *set, bool *taken);
/* The columns of the op's shape (fit_shapes.c); table->device is the row's. */
int sc_fit_shape_read(const struct sc_fit_table *table, struct sc_fit_row *out);
extern const char *const *const sc_fit_dims[SC_N_FIT_KINDS];
/* Interference: a table of pairs, as c3 --measured reads, and not of kernels. */
bool sc_fit_is_of_pairs(const struct sc_fit_table *table);
/* "m": a cell as a number in lower..upper, with file, line and column in the error. */
struct sc_fit_cell {
	const char *column;
	double lower, upper;
	double fallback; /* of an empty cell or a missing column; NAN = must be there */
};
int sc_fit_cell_read(const struct sc_fit_table *table, const struct sc_fit_cell *cell, double *out);
/* One of `names`; -1 for an empty cell or a missing column. */
int sc_fit_name_read(const struct sc_fit_table *table, const char *column,
		     const struct sc_name *names, int *out);
/* The op of an embedding's row (fit_embedding.c); dims and dtype are read. */
int sc_fit_embedding_read(const struct sc_fit_table *table, bool backward, struct sc_fit_row *out);
/* Coefficients of passes that no row is of are not fitted. */
struct sc_fit_problem;
struct sc_fit_params;
void sc_fit_embedding_mark(const struct sc_fit_problem *problem, struct sc_fit_params *params);
/* Of a name that --swap exchanges, the column that it stands for. */
int sc_fit_column(const struct sc_fit_table *table, const char *column);
const char *sc_fit_text(const struct sc_fit_table *table, const char *column);
int sc_fit_no_column(const struct sc_fit_table *table, const char *column);
int sc_fit_cell_error(const struct sc_fit_table *table, const char *column, const char *expected);

/* Collectives (fit_sweeps.c). *forced: not of NCCL's own choice, nothing was filled. */
int sc_fit_sweep_read(const struct sc_fit_table *table, struct sc_fit_set *set,
		      struct sc_fit_row *out, bool *forced);

/* The cluster of a row (fit_network.c), whose gpus_per_node is set; returns a warning or NULL. `hosts`:
 * where its ranks are. */
const char *sc_fit_network_read(const struct sc_fit_table *table, const struct sc_span *hosts,
				struct sc_cluster *out);

struct sc_fit_work;
/* The profile whose coefficients change. */
struct sc_fit_model {
	enum sc_fit_kind kind;
	bool segments;             /* as struct sc_fit_opts */
	struct sc_device device;   /* its coefficients are those of all `devices` */
	struct sc_device *devices; /* of the rows */
	size_t n_devices;
	struct sc_fabric_profile profile; /* lists are copies */
	struct sc_request *requests;
	struct sc_fabric *fabrics;
	size_t n_fabrics;
	/* Of an origin: time before the kernel; the shortest time that is seen at all, since the host
	 * is not back earlier. */
	double launch_us[SC_FIT_MAX_ORIGINS], floor_us[SC_FIT_MAX_ORIGINS];
};
struct sc_fit_param {
	const char *block, *name;
	double *place; /* in the model */
	double lower, upper, start;
	double shared; /* as struct sc_fit_coef_row has it */
	bool minor;
	enum sc_fit_status status;
	double value, standard_error;
};
struct sc_fit_params {
	struct sc_fit_param at[SC_FIT_MAX_PARAMS];
	size_t n;
};
/* `set` lends its requests. */
int sc_fit_model_init(struct sc_fit_work *work, struct sc_err *err);
/* Coefficients as another device's profile has them. */
void sc_fit_model_start(struct sc_fit_model *model, const struct sc_device *device);
/* After coefficients changed: what is made from them. */
void sc_fit_model_refresh(struct sc_fit_model *model);
double sc_fit_predict_us(const struct sc_fit_model *model, const struct sc_fit_row *row);
struct sc_fit_problem {
	struct sc_fit_model *model;
	const struct sc_fit_row *const *rows;
	size_t n;
};
/* The coefficients of the kind's blocks, those of launches (from the rows), at their starts. */
void sc_fit_params_list(const struct sc_fit_problem *problem, const struct sc_fit_work *work,
			struct sc_fit_params *out);
/* An error where a pattern of --keep names none of work->params. */
int sc_fit_check_keep(const struct sc_fit_work *work, struct sc_err *err);
/* Sets the model to the parameters' values. */
void sc_fit_params_apply(const struct sc_fit_params *params, struct sc_fit_model *model);

/* A coefficient of a block: one line in fit_coefs.c. */
struct sc_fit_coef_row {
	const char *name;
	size_t offset; /* in struct sc_device, sc_fabric_link, sc_fabric_net or sc_fabric_ramp */
	double lower, upper;
	double at;  /* > 0: not fitted, and this while others are */
	bool minor; /* of two that the rows do not tell apart, the one to leave as it was */
	/* Where rows of several devices share it: > 0: where it starts, < 0: it is off. Such a start is
	 * of no device, so none that is left out has a say in it. */
	double shared;
};
struct sc_fit_block {
	const char *name;                   /* the key in the profile */
	const struct sc_fit_coef_row *rows; /* ended by a NULL name */
};
extern const struct sc_fit_block sc_fit_blocks[SC_N_FIT_KINDS]; /* collective: none here */
extern const struct sc_fit_block sc_fit_links, sc_fit_nets, sc_fit_ramp, sc_fit_simt;

/* Fits the parameters that are SC_FIT_FITTED to the rows, from several starts; the rest stay as they
 * are. Leaves value, status and standard error in `params`, and the model set to them. */
int sc_fit_search(const struct sc_fit_problem *problem, struct sc_fit_params *params,
		  double *condition, struct sc_err *err);
/* Those that several machines share (fit_descend.c): each machine is off in its own way, and few
 * coefficients are told apart. */
void sc_fit_descend(const struct sc_fit_problem *problem, struct sc_fit_params *params);
/* The same parameters once more, over other rows, from where they are. */
int sc_fit_refine(const struct sc_fit_problem *problem, struct sc_fit_params *params,
		  struct sc_err *err);
/* A fit under way (fit.c), and its errors by region (fit_score.c). */
struct sc_fit_work {
	const struct sc_fit_opts *opts;
	const struct sc_csv *table;
	struct sc_arena *arena;
	struct sc_fit_set set;
	struct sc_fit_model model;
	struct sc_fit_params params;
	const struct sc_device *start; /* --device */
	size_t n_folds;                /* or groups */
};
void sc_fit_score(const struct sc_fit_work *work, struct sc_fit *out);
/* The rows as curves, which the model then has (fit_curves.c, fit_gemm_curves.c). Build them while it has
 * none. */
/* A sweep of rising sizes as three segments (fit_segments.c). */
struct sc_fit_segments {
	double low_bytes, high_bytes; /* the curve is between these */
	double overhead_us, most_gbps;
	double rise, middle, steepness, low; /* of log10 of 1e9 bytes/s over log2 of bytes */
};
/* False: too few sizes, or no curve is found. */
bool sc_fit_segments(const double *bytes, const double *us, size_t n, struct sc_fit_segments *out);
double sc_fit_segments_us(const struct sc_fit_segments *segments, double bytes);
struct sc_structs sc_fit_curves_build(const struct sc_fit_problem *problem, struct sc_arena *arena);
struct sc_structs sc_fit_gemm_curves(const struct sc_fit_problem *problem, struct sc_arena *arena);
void sc_fit_curves_set(struct sc_fit_model *model, struct sc_structs curves);
void sc_fit_curves_drop(struct sc_fit_model *model);
double sc_fit_spread(const double *predicted, const double *measured, size_t n,
		     struct sc_arena *scratch);

#endif
