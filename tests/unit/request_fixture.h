/* Requests by their keys, as the command line would set them, and what is predicted of them. */
#pragma once

#include "runner.h"
#include "study/evaluate/evaluate.h"

static struct sc_arena arena;
static struct sc_catalog *catalog;
static struct sc_evaluator *evaluator;
static struct sc_predictor *predictor; /* the evaluator's */

static inline void requests_begin(void)
{
	sc_arena_init(&arena, 1 << 16);
	catalog = sc_catalog_create();
	evaluator = sc_evaluator_create(catalog);
	predictor = evaluator->predictor;
}

static inline void requests_end(void)
{
	sc_evaluator_destroy(evaluator);
	sc_catalog_destroy(catalog);
	sc_arena_release(&arena);
}

/* "key=value key=value ..." over what `cfg` has. */
static inline void set_all(struct sc_config *cfg, const char *overrides)
{
	char *text = sc_arena_strdup(&arena, overrides); /* origins point into it */
	char *word, *save = NULL;
	struct sc_err err = {0};

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		ck_assert_msg(sc_config_set(cfg, &(struct sc_setting){word, value, "test"}, &arena,
					    &err) == 0,
			      "%s", err.text);
	}
}

static inline struct sc_request *resolve_config(const struct sc_config *cfg)
{
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_err err = {0};

	ck_assert_msg(sc_config_resolve(cfg, catalog, "test", req, &err) == 0, "%s", err.text);
	return req;
}

/* Of keys, and of more over them. */
static inline struct sc_request *request_of(const char *keys, const char *overrides)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, keys);
	set_all(&cfg, overrides);
	return resolve_config(&cfg);
}

/* `opts` may be NULL: as usual. */
static inline struct sc_prediction *predict_request(const struct sc_request *req,
						    const struct sc_predict_opts *opts)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_predict_opts usual;
	struct sc_err err = {0};

	sc_predict_opts_init(&usual);
	ck_assert_msg(sc_predict(predictor, req, opts ? opts : &usual, out, &err) == 0, "%s",
		      err.text);
	return out;
}

/* Under the plan that the request's planner makes, where opts has none. */
static inline int predict_chosen(const struct sc_request *req, const struct sc_predict_opts *opts,
				 struct sc_prediction *out, struct sc_err *err)
{
	int rc;

	if (opts->plan)
		return sc_predict(predictor, req, opts, out, err);
	evaluator->opts = *opts;
	evaluator->request = *req;
	rc = sc_evaluate_request(evaluator, err);
	if (rc == 0)
		*out = evaluator->prediction;
	return rc;
}
