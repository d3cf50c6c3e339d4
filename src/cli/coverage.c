/* stepcast help coverage: how much of what was measured is like a question, and what of it is extrapolated. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "core/machine/device.h"

enum { MAX_SETS = 4 };

/* What rows have to share with the question, the most first. */
static const struct {
	const char *name;
	unsigned columns;
} ROWS[] = {
#define LIKE(column) (1u << SC_LIKE_##column)
	{"this model, GPU, software, nodes, bits",
	 LIKE(MODEL) | LIKE(GPU) | LIKE(SOFTWARE) | LIKE(NODES) | LIKE(BITS)},
	{"this model, GPU and software", LIKE(MODEL) | LIKE(GPU) | LIKE(SOFTWARE)},
	{"this GPU and software", LIKE(GPU) | LIKE(SOFTWARE)},
	{"this model and GPU", LIKE(MODEL) | LIKE(GPU)},
	{"this model and software", LIKE(MODEL) | LIKE(SOFTWARE)},
	{"this model, nodes, bits", LIKE(MODEL) | LIKE(NODES) | LIKE(BITS)},
	{"all", 0},
};

static void append_rows(const struct sc_band *band, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "%-42s %6s %8s %9s %7s\n", "measured rows of", "rows", "sources",
			 "median %", "p90 %");
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct sc_like_rows rows;

		sc_band_count(band, ROWS[i].columns, &rows);
		sc_strbuf_printf(out, "  %-40s %6zu", ROWS[i].name, rows.n);
		if (rows.n)
			sc_strbuf_printf(out, " %8zu %9.1f %7.1f", rows.n_suites,
					 SC_PCT * expm1(rows.median_ln),
					 SC_PCT * expm1(rows.p90_ln));
		sc_strbuf_append_char(out, '\n');
	}
}

static bool has_rows(const struct sc_band *band, unsigned columns)
{
	struct sc_like_rows rows;

	sc_band_count(band, columns, &rows);
	return rows.n > 0;
}

/* In words: what no row shows. */
static void append_gaps(const struct sc_request *request, struct sc_strbuf *out)
{
	const bool is_dlrm = request->config.model.family == SC_DLRM;
	const char *const BLOCKS[] = {
		sc_device_math_block(&request->device,
				     sc_precision_dtype(request->config.training.precision)),
		is_dlrm ? "embedding" : "attention", "rowwise"};
	const struct sc_band *band = request->band;
	const char *const *like = band->like.at;
	const size_t before = out->n;

	for (size_t i = 0; i < sizeof(BLOCKS) / sizeof(BLOCKS[0]); i++)
		if (!sc_device_is_fitted(&request->device, BLOCKS[i]))
			sc_strbuf_printf(out, "  %s kernels of %s: from a trend over other GPUs\n",
					 BLOCKS[i], request->device.id);
	if (!has_rows(band, LIKE(GPU)))
		sc_strbuf_printf(out, "  iterations on %s: none was measured\n", like[SC_LIKE_GPU]);
	if (!has_rows(band, LIKE(SOFTWARE)))
		sc_strbuf_printf(out, "  iterations of %s: none was measured\n",
				 like[SC_LIKE_SOFTWARE]);
	else if (!sc_band_is_seen(band) && has_rows(band, LIKE(GPU)))
		sc_strbuf_printf(out, "  %s on %s: each was measured, not together\n",
				 like[SC_LIKE_SOFTWARE], like[SC_LIKE_GPU]);
	if (!has_rows(band, LIKE(GPU) | LIKE(BITS)))
		sc_strbuf_printf(out, "  products of %s bits on %s: in no measured iteration\n",
				 like[SC_LIKE_BITS], like[SC_LIKE_GPU]);
	if (out->n == before)
		sc_strbuf_append(out, "  nothing: its kernels, its software and its number format "
				      "were measured on this GPU\n");
}

/* A config or a model as its first word, a GPU, a software; what is left out is the config's, or usual. */
static int read_question(const struct sc_arg_list *words, struct sc_cli_call *call,
			 struct sc_config *config, struct sc_err *err)
{
	static const char *const KEYS[] = {"", "cluster.gpu=", "training.software="};
	const char *texts[MAX_SETS], *first = words->at[0];
	struct sc_arg_list sets = {texts, 0};

	for (size_t i = 1; i < words->n; i++)
		texts[sets.n++] = sc_arena_printf(call->arena, "%s%s", KEYS[i], words->at[i]);
	if (sc_ends_with(first, ".yaml") && strncmp(first, "models/", 7) != 0)
		return sc_cli_config(first, &sets, call->arena, config, err);
	if (words->n < 2)
		return sc_err_set(
			err, SC_EUSAGE,
			"help coverage needs a CONFIG, or a MODEL and a GPU, as llama3-8b "
			"h100-sxm-80gb megatron-core");
	sc_config_init(config);
	config->gpus = 1;
	config->training.global_batch = 1;
	texts[sets.n++] = sc_arena_printf(call->arena, "model=%s%s%s",
					  strncmp(first, "models/", 7) == 0 ? "" : "models/", first,
					  sc_ends_with(first, ".yaml") ? "" : ".yaml");
	return sc_cli_set(&sets, call->arena, config, err);
}

int sc_coverage_text(const struct sc_arg_list *words, struct sc_cli_call *call,
		     struct sc_strbuf *out, struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(call->arena, 1, sizeof(*request));
	const char *const *like;
	struct sc_config config;
	int rc;

	if (words->n < 1 || words->n >= MAX_SETS)
		return sc_err_set(err, SC_EUSAGE,
				  "help coverage: expected CONFIG|MODEL [GPU] [SOFTWARE]");
	rc = read_question(words, call, &config, err);
	if (rc == 0)
		rc = sc_config_resolve(&config, call->catalog, config.file, request, err);
	if (rc)
		return rc;
	like = request->band->like.at;
	sc_strbuf_printf(out, "%s model on %s, %s, %s node%s, products of %s bits\n\n",
			 like[SC_LIKE_MODEL], like[SC_LIKE_GPU], like[SC_LIKE_SOFTWARE],
			 like[SC_LIKE_NODES], strcmp(like[SC_LIKE_NODES], "one") == 0 ? "" : "s",
			 like[SC_LIKE_BITS]);
	append_rows(request->band, out);
	sc_strbuf_printf(out, "an %d %% band is %.1f %% to either side\n\nextrapolated\n",
			 SC_CONFIDENCE,
			 SC_PCT * (sc_band_factor(request->band, SC_CONFIDENCE) - 1));
	append_gaps(request, out);
	return 0;
}
