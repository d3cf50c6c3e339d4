/* C3: concurrent computation and communication. One GEMM and one collective of a node run under
 * each policy that frameworks have: how long they take together, and what that gains over one after
 * the other. The ideal speedup is (Tg + Tc) / max(Tg, Tc) of the isolated times; the fraction of
 * ideal is (speedup - 1) / (ideal - 1) (ConCCL, arXiv:2412.14335). The max is of a policy's own way
 * to compute or to move where that is shorter alone. */
#pragma once

#include "base/arena.h"
#include "base/csv.h"
#include "base/stats.h"
#include "base/vec.h"
#include "core/config/config.h"
#include "core/machine/c3_policy.h"
#include "models/interference.h"

enum sc_c3_kind {
	SC_C3_INDEPENDENT,
	SC_C3_GATHER_GEMM,  /* the GEMM needs what is gathered */
	SC_C3_GEMM_SCATTER, /* its result is sent: reduced and scattered, or as it is */
	/* Experts have a product each (gemm's batch); their tokens come and go as whole rows. */
	SC_C3_DISPATCH_EXPERTS,
	SC_C3_EXPERTS_COMBINE,
	SC_N_C3_KINDS
};
static inline bool sc_c3_sends(enum sc_c3_kind kind)
{
	return kind == SC_C3_GEMM_SCATTER || kind == SC_C3_EXPERTS_COMBINE;
}
/* A name's value is a kind, or SC_C3_KIND_WITH a kind and the only collective that it means. */
extern const struct sc_name sc_c3_kind_names[];
#define SC_C3_KIND_WITH(kind, collective) ((kind) | ((collective) + 1) << 8)
/* Takes the kind from a name's value. False: neither the GEMM nor its result needs it. */
bool sc_c3_kind_of(int value, enum sc_collective collective, enum sc_c3_kind *out);
const char *sc_c3_kind_name(enum sc_c3_kind kind, enum sc_collective collective);
#define SC_C3_KIND_FITS                                                                      \
	"all_gather_gemm and all_to_all_gemm need what they name before the product, "       \
	"gemm_reduce_scatter, gemm_all_reduce, gemm_all_to_all and gemm_all_gather send it " \
	"after it; dispatch_experts and experts_combine are of all_to_all"
#define SC_C3_DEPENDENT_KINDS                                                                \
	{"all_gather_gemm", SC_C3_GATHER_GEMM}, {"gemm_reduce_scatter", SC_C3_GEMM_SCATTER}, \
		{"all_to_all_gemm", SC_C3_KIND_WITH(SC_C3_GATHER_GEMM, SC_ALL_TO_ALL)},      \
		{"gemm_all_reduce", SC_C3_KIND_WITH(SC_C3_GEMM_SCATTER, SC_ALL_REDUCE)},     \
		{"gemm_all_to_all", SC_C3_KIND_WITH(SC_C3_GEMM_SCATTER, SC_ALL_TO_ALL)},     \
		{"gemm_all_gather", SC_C3_KIND_WITH(SC_C3_GEMM_SCATTER, SC_ALL_GATHER)},     \
		{"dispatch_experts", SC_C3_DISPATCH_EXPERTS},                                \
	{                                                                                    \
		"experts_combine", SC_C3_EXPERTS_COMBINE                                     \
	}

struct sc_c3_pair {
	struct sc_transfer transfer; /* holds the device */
	struct sc_op gemm;           /* or another kernel, if independent */
	const struct sc_op *layer;   /* independent: n_layer kernels in order, in place of it */
	size_t n_layer;
	enum sc_c3_kind kind;
	double compute_us, comm_us; /* measured alone; 0 = predicted */
	double second_us; /* of two streams, by which the later kernel is launched later */
};
/* A limit of a pair, from one time to the next: an sc_resource; or none, where both run as if
 * alone; or, where there is no room for all of them, several one after another. */
enum { SC_C3_MAX_LIMITS = 8, SC_C3_NO_LIMIT = SC_N_RES, SC_C3_SEVERAL_LIMITS };
struct sc_c3_limits {
	struct sc_c3_limit {
		int what;
		double until_us;
	} at[SC_C3_MAX_LIMITS];
	size_t n;
};
extern const char *const sc_c3_limit_names[]; /* "sm", "none" */
struct sc_c3_result {
	double compute_us, comm_us; /* alone */
	double serial_us, time_us;
	double speedup, ideal, fraction;        /* fraction: NAN where nothing can be gained */
	double compute_slowdown, comm_slowdown; /* of each side, over its time alone */
	double n;                               /* SMs reserved, pieces; 0 = none */
	double best_us; /* tile_fused: by the best kernels; time_us is by the usual ones; else 0 */
	double low, high; /* speedups: between them lie 80 % of those that were measured */
	struct sc_c3_limits limits;
};
struct sc_c3_study; /* scratch: simulator and graph */
struct sc_c3_study *sc_c3_study_create(void);
void sc_c3_study_destroy(struct sc_c3_study *study);
int sc_c3_predict(struct sc_c3_study *study, const struct sc_c3_pair *pair,
		  const struct sc_c3_choice *choice, struct sc_c3_result *out, struct sc_err *err);

/* Two kernels of one GPU, each on a stream of its own, the first launched just before the second:
 * SMs are shared by space, the rest by its capacity (Abacus, Cui et al., SC21, asks for what two
 * operators take together). */
struct sc_c3_kernels {
	double alone_us[2], end_us[2]; /* ends: from when both were launched */
	struct sc_c3_limits limits;
};
int sc_c3_two_kernels(struct sc_c3_study *study, const struct sc_device *device,
		      const struct sc_op op[2], struct sc_c3_kernels *out, struct sc_err *err);

/* ---- pairs under every policy ---- */

struct sc_c3_named {
	const char *name; /* "gemm mlp up beside tensor-parallel all-gather" */
	struct sc_c3_pair pair;
	double count; /* in one iteration of a rank; 0 = not known */
};
struct sc_c3_pairs {
	SC_VEC(struct sc_c3_named) list;
};
/* Lists every collective of an iteration with the kernels that can run beside it: the products of a
 * layer before or after a collective over the tensor-, context- or expert-parallel group; layers
 * beside gradients' reductions and weights' gathers. Pairs point into `arena` and the request.
 * SC_EUNSUPPORTED means a family without layers. */
int sc_c3_config_pairs(const struct sc_request *request, struct sc_arena *arena,
		       struct sc_c3_pairs *out, struct sc_err *err);

/* The classes are Tg > 1.15 Tc, Tc > 1.15 Tg, and between (ConCCL). */
enum sc_c3_class { SC_C3_G_LONG, SC_C3_C_LONG, SC_C3_GC_EQUAL };
extern const char *const sc_c3_class_names[]; /* "G-long" */
/* The choice `best` is the best from so many bytes on; kernels that need the collective, or it
 * them, grow with it. */
struct sc_c3_change {
	double bytes;
	size_t best;
	double n; /* SMs or pieces, of the largest size that it is for; 0: none */
};
enum { SC_C3_MAX_CHANGES = 16, SC_C3_MAX_CHOICES = 16 };
/* The loss of a choice against the best of each size. NAN: it does not apply to all of them. */
struct sc_c3_loss {
	double mean_frac, most_frac;
};
/* `n` choices to try; none: every policy, by its number. The collective's sizes double from
 * from_bytes to to_bytes; 0: only its own. */
struct sc_c3_advise_opts {
	struct sc_c3_choice choice[SC_C3_MAX_CHOICES];
	size_t n;
	double from_bytes, to_bytes;
};
struct sc_c3_advice {
	const struct sc_c3_named *named;
	enum sc_c3_class class;
	size_t n; /* choices, and what came of each that applies */
	struct sc_c3_choice choice[SC_C3_MAX_CHOICES];
	bool applies[SC_C3_MAX_CHOICES];
	struct sc_c3_result result[SC_C3_MAX_CHOICES];
	size_t best; /* the first of those within 1 % of the fastest */
	struct sc_c3_change changes[SC_C3_MAX_CHANGES]; /* a rule: these, by size */
	size_t n_changes;
	struct sc_c3_loss loss[SC_C3_MAX_CHOICES],
		rule_loss; /* of one choice at all sizes; of the rule */
};
int sc_c3_advise(struct sc_c3_study *study, const struct sc_c3_named *named,
		 const struct sc_c3_advise_opts *opts, struct sc_c3_advice *out,
		 struct sc_err *err);

/* ---- a table of measured pairs ---- */

struct sc_c3_case {
	const char *name, *policy;
	const char *skipped; /* why it could not be predicted, or NULL */
	size_t row;
	struct sc_c3_choice choice;
	struct sc_c3_result result;
	double measured_us, measured_speedup; /* 0 = not in the table */
};
struct sc_c3_score {
	const char *column, *value; /* NULL: all */
	size_t n_rows;
	struct sc_accuracy time, speedup;
};
struct sc_c3_table {
	const struct sc_csv *csv;
	struct sc_c3_case *cases;
	size_t n_cases, n_impossible;
	const char *first_impossible; /* where, and why; NULL: none */
	struct sc_c3_score all, *groups;
	size_t n_groups;
};
/* Columns: device, gpus, dtype, kind, m, n, k, collective, bytes, policy; case, compute_us,
 * comm_us, serial_us, overlapped_us, second_us, ctas, experts may be empty or missing. `by`:
 * columns to score apart. m is as the GPU multiplies it, of all experts; bytes as in nccl-tests. */
struct sc_c3_table_opts {
	const char *const *by;
	size_t n_by;
	/* Every row is predicted once for each policy; measured times stay with the row's own.
	 * None: only its own. */
	const char *const *policies;
	size_t n_policies;
};
int sc_c3_table_predict(const struct sc_csv *csv, const struct sc_c3_table_opts *opts,
			struct sc_arena *arena, struct sc_c3_table *out, struct sc_err *err);

/* Makes the rows of a table without policies pairs; the first that is none is an error. */
int sc_c3_table_pairs(const struct sc_csv *csv, struct sc_arena *arena, struct sc_c3_pairs *out,
		      struct sc_err *err);
