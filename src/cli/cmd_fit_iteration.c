/* stepcast fit --kind iteration: coefficients from whole measured iterations. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cli/cmd_fit.h"
#include "report/fit_iterations_report.h"

static int read_where(const struct sc_arg_list *texts, struct sc_arena *arena,
		      struct sc_itfit_opts *opts, struct sc_err *err)
{
	struct sc_where *where = sc_arena_calloc(arena, texts->n + 1, sizeof(*where));
	int rc = 0;

	for (size_t i = 0; i < texts->n && rc == 0; i++)
		rc = sc_cli_split(texts->at[i], "--where", "COLUMN=VALUE", arena, &where[i].column,
				  &where[i].value, err);
	opts->where = where;
	opts->n_where = texts->n;
	return rc;
}

static int read_coef(const char *text, struct sc_arena *arena, struct sc_itfit_name *out,
		     struct sc_err *err)
{
	const char *equals = strchr(text, '=');

	*out = (struct sc_itfit_name){text, (double)NAN};
	if (!equals)
		return 0;
	out->name = sc_arena_strndup(arena, text, (size_t)(equals - text));
	if (!sc_parse_double(equals + 1, &out->start) || !(out->start > 0))
		return sc_err_set(err, SC_EUSAGE,
				  "--coef %.64s: expected a start above 0, got \"%.64s\"",
				  out->name, equals + 1);
	return 0;
}

static int read_coefs(const struct sc_arg_list *texts, struct sc_arena *arena,
		      struct sc_itfit_opts *opts, struct sc_err *err)
{
	struct sc_itfit_name *coefs = sc_arena_calloc(arena, texts->n + 1, sizeof(*coefs));
	int rc = 0;

	for (size_t i = 0; i < texts->n && rc == 0; i++)
		rc = read_coef(texts->at[i], arena, &coefs[i], err);
	opts->coefs = coefs;
	opts->n_coefs = texts->n;
	return rc;
}

/* "model.hidden,model.layers" */
static void read_columns(const char *text, struct sc_arena *arena, struct sc_itfit_opts *opts)
{
	const char **columns = sc_arena_calloc(arena, strlen(text) + 1, sizeof(*columns));

	for (;;) {
		size_t n = strcspn(text, ",");

		columns[opts->n_leave_out++] = sc_arena_strndup(arena, text, n);
		if (!text[n])
			break;
		text += n + 1;
	}
	opts->leave_out = columns;
}

static struct sc_progress *start_progress(void *ctx, size_t n_fits)
{
	return sc_cli_progress(ctx, "fit", n_fits);
}

static int check_line(const struct sc_fit_iteration_line *line, struct sc_err *err)
{
	size_t n = line->common->words.n;

	if (n != 1)
		return sc_err_set(err, SC_EUSAGE,
				  "fit --kind iteration needs one CONFIG, the base of the table's "
				  "rows; got %zu",
				  n);
	if (!line->table)
		return sc_err_set(err, SC_EUSAGE, "fit needs --table CSV");
	if (!line->own->coefs.n)
		return sc_err_set(err, SC_EUSAGE,
				  "fit --kind iteration needs --coef, as software.host_op_us or "
				  "device.gemm.power_eff");
	return 0;
}

static bool is_file(const char *output)
{
	return strcmp(output, "-") != 0;
}

/* A file holds one profile. */
static int check_one_profile(const struct sc_itfit *fit, struct sc_err *err)
{
	const struct sc_itfit_coef *first = &fit->coefs[0];

	for (size_t i = 1; i < fit->n_coefs; i++) {
		const struct sc_itfit_coef *c = &fit->coefs[i];

		if (c->of_device != first->of_device || strcmp(c->id, first->id) != 0)
			return sc_err_set(
				err, SC_EUSAGE,
				"-o writes one profile, and these coefficients are of %.64s "
				"and %.64s; leave -o out, or fit them apart",
				first->id, c->id);
	}
	return 0;
}

static int write_profile(const struct sc_fit_iteration_line *line, const struct sc_itfit *fit,
			 struct sc_arena *arena, struct sc_err *err)
{
	const char *path = line->common->output;
	struct sc_strbuf text = {0};
	int rc = check_one_profile(fit, err);

	if (rc)
		return rc;
	sc_yaml_itfit(fit, sc_cli_profile_id(path, fit->coefs[0].id, arena), &text);
	rc = sc_cli_write_text(path, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

static int put_json(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_json_itfit(ctx, out, err);
}

static int write_result(const struct sc_fit_iteration_line *line, const struct sc_itfit *fit,
			struct sc_err *err)
{
	struct sc_strbuf text = {0};

	if (line->json)
		return sc_cli_write("-", put_json, fit, err);
	sc_text_itfit(fit, &text);
	sc_cli_print(&text);
	sc_strbuf_release(&text);
	return 0;
}

static int read_opts(const struct sc_fit_iteration_line *line, struct sc_arena *arena,
		     struct sc_itfit_opts *opts, struct sc_err *err)
{
	int rc = check_line(line, err);

	if (rc == 0)
		rc = read_where(line->where, arena, opts, err);
	if (rc == 0)
		rc = read_coefs(&line->own->coefs, arena, opts, err);
	if (rc == 0 && line->leave_out)
		read_columns(line->leave_out, arena, opts);
	return rc;
}

int sc_cli_fit_iteration(const struct sc_fit_iteration_line *line, struct sc_arena *arena,
			 struct sc_err *err)
{
	struct sc_common common = *line->common;
	struct sc_predict_opts predict;
	struct sc_config config;
	struct sc_csv table;
	struct sc_itfit_opts opts = {.base = &config,
				     .table = &table,
				     .start_from_profile = line->own->start_from_profile,
				     .n_jobs = (unsigned)line->own->jobs,
				     .predict = &predict,
				     .progress = start_progress,
				     .progress_ctx = &common};
	struct sc_itfit fit;
	int rc = read_opts(line, arena, &opts, err);
	const char *path;

	if (rc)
		return rc;
	path = line->common->words.at[0];
	sc_predict_opts_init(&predict);
	rc = sc_cli_config(path, &line->own->sets, arena, &config, err);
	if (rc == 0)
		rc = sc_csv_load(line->table, arena, &table, err);
	if (rc == 0)
		rc = sc_itfit_run(&opts, arena, &fit, err);
	if (rc == 0 && is_file(line->common->output))
		rc = write_profile(line, &fit, arena, err);
	return rc ? rc : write_result(line, &fit, err);
}
