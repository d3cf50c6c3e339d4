/* Keys that configs and tables may have, and that no model reads yet: said so. */
#include "core/config/config_priv.h"

/* What says the same as the models do has no need of a word. */
static void warn_no_effect(struct sc_request *req)
{
	const struct sc_config *cfg = &req->config;
	const struct sc_training *tr = &cfg->training;
	const struct {
		const char *key;
		bool asks;
	} keys[] = {
		{"model.sliding_window",
		 cfg->model.sliding_window > 0 && cfg->model.sliding_window < cfg->model.seq &&
			 (tr->attention == SC_ATT_UNFUSED || cfg->parallel.cp > 1)},
		{"training.recompute_layers",
		 tr->recompute_layers > 0 && tr->recompute != SC_RECOMPUTE_FULL},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].asks)
			sc_warn(&req->warnings, "%s has no effect yet", keys[i].key);
}

int sc_config_take_later(const struct sc_resolver *res)
{
	warn_no_effect(res->request);
	return 0;
}
