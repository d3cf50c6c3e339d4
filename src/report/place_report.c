/* Which GPUs jobs of one node get: as text and JSON. */
#include "base/json_out.h"
#include "report/collective_report.h"

enum { PLACE_VERSION = 1 };

static void append_placement(const struct sc_collective_place_opts *opts, const char *what,
			     const struct sc_placement *placement, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "\n%s\n%6s %12s %12s  GPUs\n", what, "GPUs", "rings GB/s", "time us");
	for (size_t j = 0; j < opts->n; j++) {
		const struct sc_placed_job *job = &placement->jobs[j];

		sc_strbuf_printf(out, "%6d %12.2f %12.2f  ", job->n, job->gbps, job->time_us);
		for (int g = 0; g < job->n; g++)
			sc_strbuf_printf(out, "%s%d", g ? "," : "", job->gpus[g]);
		sc_strbuf_append_char(out, '\n');
	}
	sc_strbuf_printf(out, "%6s %12s %12.2f  the longest %.2f\n", "sum", "", placement->sum_us,
			 placement->longest_us);
}

void sc_text_place(const struct sc_collective_place_opts *opts,
		   const struct sc_collective_place *place, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "%s of %.0f bytes, %zu job%s on a node of %d GPUs\n",
			 sc_collective_names[opts->kind], opts->bytes, opts->n,
			 opts->n == 1 ? "" : "s", opts->fabric->wiring.n_gpus);
	append_placement(opts, "The first GPUs that are free:", &place->in_turn, out);
	if (place->in_turn.sum_us > place->best.sum_us * (1 + 1e-9))
		append_placement(opts, "The best:", &place->best, out);
	sc_strbuf_printf(out, "\n%zu way%s tried; the best takes %.2f of the time of the first\n",
			 place->n_tried, place->n_tried == 1 ? "" : "s",
			 place->in_turn.sum_us > 0 ? place->best.sum_us / place->in_turn.sum_us
						   : 1);
}

static void put_placement(struct sc_json *json, const struct sc_collective_place_opts *opts,
			  const char *key, const struct sc_placement *placement)
{
	json_t *object = sc_json_object(json, json->root, key);
	json_t *jobs = sc_json_array(json, object, "jobs");

	sc_json_real(json, object, "sum_us", placement->sum_us);
	sc_json_real(json, object, "longest_us", placement->longest_us);
	for (size_t j = 0; j < opts->n; j++) {
		const struct sc_placed_job *job = &placement->jobs[j];
		json_t *item = sc_json_object(json, jobs, NULL), *gpus;

		sc_json_real(json, item, "rings_gbps", job->gbps);
		sc_json_real(json, item, "time_us", job->time_us);
		gpus = sc_json_array(json, item, "gpus");
		for (int g = 0; g < job->n; g++)
			sc_json_int(json, gpus, NULL, job->gpus[g]);
	}
}

int sc_json_place(const struct sc_collective_place_opts *opts,
		  const struct sc_collective_place *place, FILE *out, struct sc_err *err)
{
	struct sc_json json;

	sc_json_init(&json, "stepcast/place", PLACE_VERSION);
	sc_json_text(&json, json.root, "collective", sc_collective_names[opts->kind]);
	sc_json_real(&json, json.root, "bytes", opts->bytes);
	sc_json_int(&json, json.root, "n_tried", (int64_t)place->n_tried);
	put_placement(&json, opts, "in_turn", &place->in_turn);
	put_placement(&json, opts, "best", &place->best);
	return sc_json_write(&json, out, err);
}
