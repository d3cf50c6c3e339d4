/* libstepcast: how long one training iteration takes on a cluster of GPUs, from C.
 *
 *     stepcast_request *request = stepcast_request_file("gpt.yaml");
 *     stepcast_result *result = stepcast_predict(request, NULL, 0);
 *     double ms;
 *
 *     if (result && stepcast_result_number(result, "iteration_ms", &ms) == 0)
 *             printf("%.1f ms\n", ms);
 *     else
 *             fprintf(stderr, "%s\n", stepcast_error());
 *
 * Functions that make something return NULL on failure, those that return int -1; stepcast_error
 * says why. Of a request, a result or costs that are NULL they return that too, and the error
 * stays. Options are those of the command of that name, one word each, as {"--objective",
 * "torchrec"}; options that say where or how to write, and --set, are refused (docs: stepcast
 * COMMAND --help). The results are the command's, but that what would fit (`settings`) is looked
 * for with --explain alone.
 *
 * Any number of threads may call; one request may be read by several at once, while none changes
 * it. A result, and costs, belong to one thread at a time. The library prints nothing, writes no
 * file, never ends the process but for memory that the system refuses (abort), and handles no
 * signal. Numbers have a point in every locale. Device, model and software files come from
 * $STEPCAST_CONFIGS, else from those installed beside the library. */
#ifndef STEPCAST_H
#define STEPCAST_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#define STEPCAST_API __attribute__((visibility("default")))
#else
#define STEPCAST_API
#endif

typedef struct stepcast_request stepcast_request; /* a config, and what was set in it */
typedef struct stepcast_result stepcast_result;   /* an answer */
typedef struct stepcast_costs stepcast_costs;     /* of shards of embedding tables */

enum stepcast_status {
	STEPCAST_OK,
	STEPCAST_IO,          /* the system refused: open, read */
	STEPCAST_FORMAT,      /* not the format it should be */
	STEPCAST_VALUE,       /* a value is unknown, missing, mistyped or out of range */
	STEPCAST_CONFLICT,    /* values that do not fit together */
	STEPCAST_LIMIT,       /* too large, too deep, too many */
	STEPCAST_DEADLOCK,    /* a simulation that cannot end */
	STEPCAST_UNSUPPORTED, /* what cannot be predicted yet */
	STEPCAST_USAGE        /* an option that is wrong */
};

/* "0.1.0" */
STEPCAST_API const char *stepcast_version(void);
/* The error of this thread's last call that could fail: "file:line:col: error: text", or "" if it
 * did not. It holds until the next call. */
STEPCAST_API const char *stepcast_error(void);
STEPCAST_API enum stepcast_status stepcast_error_status(void);

/* A config's file, or its text, YAML or JSON. `name` (or NULL) is the file that messages name and
 * beside which other files are looked up. */
STEPCAST_API stepcast_request *stepcast_request_file(const char *path);
STEPCAST_API stepcast_request *stepcast_request_text(const char *text, const char *name);
/* Sets a key as --set of the command does: "parallel.tp", "4". */
STEPCAST_API int stepcast_request_set(stepcast_request *request, const char *key,
				      const char *value);
/* Shares what was loaded for the first; each may be set, used and freed without the other. */
STEPCAST_API stepcast_request *stepcast_request_copy(const stepcast_request *request);
STEPCAST_API void stepcast_request_free(stepcast_request *request);

/* `options` may be NULL if there are none. */
STEPCAST_API stepcast_result *stepcast_predict(const stepcast_request *request,
					       const char *const *options, size_t n_options);
STEPCAST_API stepcast_result *stepcast_shard(const stepcast_request *request,
					     const char *const *options, size_t n_options);
/* Gets each row of a sweep, from 0, in order, one at a time, perhaps on another thread than the
 * caller's. The row lives until it returns; a column is a name of it, and one that is no key is
 * text. Not 0 ends the sweep, which then fails. */
typedef int (*stepcast_row_fn)(void *ctx, size_t index, stepcast_result *row);
STEPCAST_API int stepcast_sweep(const stepcast_request *request, const char *const *options,
				size_t n_options, stepcast_row_fn take, void *ctx);

/* The whole as JSON, what the command's --json prints; of a row, one object. Lives as long as the
 * result. */
STEPCAST_API const char *stepcast_result_json(stepcast_result *result);
/* One value by its name in the JSON, as "memory_gib.total" or "classes.0.ranks"; true is 1, false
 * 0. -1: there is no number of that name, as the error says. */
STEPCAST_API int stepcast_result_number(stepcast_result *result, const char *name, double *value);
/* NULL: there is no text of that name. */
STEPCAST_API const char *stepcast_result_text(stepcast_result *result, const char *name);
/* The best plan of stepcast_shard as JSON, what the command's -o writes; NULL of other results. */
STEPCAST_API const char *stepcast_result_plan(stepcast_result *result);
STEPCAST_API void stepcast_result_free(stepcast_result *result);

/* The cost of a shard of the request's embedding tables by itself, for planners of others. */
struct stepcast_shard_cost {
	double forward_ms, backward_ms; /* kernels */
	double comms_ms;                /* the exchanges, forward and backward */
	double prefetch_ms;             /* rows from the host, ahead of a lookup */
	double hbm_bytes, host_bytes, ssd_bytes;
};
STEPCAST_API stepcast_costs *stepcast_costs_of(const stepcast_request *request);
/* `type` and `kernel` as TorchRec names them: "row_wise", "fused"; so many rows and columns of the
 * table. */
STEPCAST_API int stepcast_costs_shard(stepcast_costs *costs, const char *table, const char *type,
				      const char *kernel, long long rows, long long columns,
				      struct stepcast_shard_cost *cost);
STEPCAST_API void stepcast_costs_free(stepcast_costs *costs);

#ifdef __cplusplus
}
#endif
#endif
