/* A collective over sizes, three ways. */
#include <math.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/forms.h"
#include "report/parts.h"
#include "study/collective/collective_place.h"
#include "study/collective/collective_sizes.h"

enum { COLLECTIVE_VERSION = 1 };

static void append_other(const struct sc_collective_sizes_opts *opts,
			 const struct sc_collective_sizes *sizes, struct sc_strbuf *out)
{
	const struct sc_collective_point *p = sizes->points;

	sc_strbuf_printf(out, "\n%s", sc_collective_other(opts));
	if (!opts->asked)
		sc_strbuf_printf(out, " (%s)", sc_msccl_proto_names[opts->file->proto]);
	sc_strbuf_append(out, ": ");
	if (sizes->n_wins == 0) {
		sc_strbuf_append(out, "the library's own choice is faster at every size\n");
		return;
	}
	sc_strbuf_printf(out, "faster at %zu of %zu sizes, best %.2f x at %.0f bytes\n",
			 sizes->n_wins, sizes->n, sizes->best_speedup, sizes->best_bytes);
	for (size_t i = 0, end; i < sizes->n; i = end + 1) {
		for (end = i; end < sizes->n && p[end].file_us < p[end].time_us;)
			end++;
		if (end > i)
			sc_strbuf_printf(out, "  wins from %.0f to %.0f bytes\n", p[i].bytes,
					 p[end - 1].bytes);
	}
}

static void put_collective_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_collective_sizes *sizes = result;
	const struct sc_collective_sizes_opts *opts = sizes->opts;
	const char *other = sc_collective_other(opts);
	const char *other_us = opts->asked ? "     asked us" : "      file us";
	int width = opts->fabric->asked[opts->kind] ? 12 : 9; /* "hierarchical" */
	bool beside = opts->measured || other || opts->n_others;

	sc_strbuf_printf(out, "%s of %d ranks on %d node%s\n\n", sc_collective_names[opts->kind],
			 opts->span.n_ranks, opts->span.n_nodes,
			 opts->span.n_nodes == 1 ? "" : "s");
	sc_strbuf_printf(out, "%11s %10s %10s %10s  %-*s %-8s %5s  %-*s%s%s%s%s\n", "bytes",
			 "time us", "algbw GB/s", "busbw GB/s", width, "algorithm", "protocol",
			 "chans", beside ? 8 : 0, "limit",
			 opts->n_others ? "  together us slowdown" : "",
			 opts->measured ? "   measured us    off %" : "", other ? other_us : "",
			 other ? "  speedup  limit" : "");
	for (size_t i = 0; i < sizes->n; i++) {
		const struct sc_collective_point *p = &sizes->points[i];

		sc_strbuf_printf(out, "%11.0f %10.2f %10.2f %10.2f  %-*s %-8s %5d  %-*s", p->bytes,
				 p->time_us, p->algbw_gbps, p->busbw_gbps, width, p->algorithm,
				 p->protocol, p->channels, beside ? 8 : 0, p->limit);
		if (opts->n_others)
			sc_strbuf_printf(out, " %12.2f %8.2f", p->together_us,
					 p->together_us / p->time_us);
		if (opts->measured && (isnan(p->measured_us) || (other && isnan(p->file_us))))
			sc_strbuf_printf(out, " %13s %8s", "-", "-");
		else if (opts->measured)
			sc_strbuf_printf(
				out, " %13.2f %+8.1f", p->measured_us,
				100 * ((other ? p->file_us : p->time_us) / p->measured_us - 1));
		if (other && isnan(p->file_us))
			sc_strbuf_printf(out, " %12s %8s  %s", "-", "-", p->file_limit);
		else if (other)
			sc_strbuf_printf(out, " %12.2f %8.2f  %s", p->file_us,
					 p->time_us / p->file_us, p->file_limit);
		sc_strbuf_append_char(out, '\n');
	}
	if (other)
		append_other(opts, sizes, out);
	if (sizes->n_measured)
		sc_strbuf_printf(out,
				 "\n%zu sizes were measured: median error %.2f %%, p90 %.2f %%%s\n",
				 sizes->n_measured, sizes->median_ape_pct, sizes->p90_ape_pct,
				 !other        ? ""
				 : opts->asked ? " (of what is asked for)"
					       : " (of the file)");
}

static void add_collective_verdict(struct sc_json *json,
				   const struct sc_collective_sizes_opts *opts,
				   const struct sc_collective_sizes *sizes)
{
	enum { GOOD_PCT = 10, FAIR_PCT = 25 };
	const struct sc_collective_point *p = &sizes->points[sizes->n - 1];
	struct sc_strbuf size = {0}, time = {0};

	sc_text_bytes(p->bytes, &size);
	sc_text_ms(p->time_us / SC_US_PER_MS, &time);
	if (sizes->n_measured)
		sc_json_verdict(json,
				sizes->median_ape_pct < GOOD_PCT   ? SC_STANDS_WELL
				: sizes->median_ape_pct < FAIR_PCT ? SC_STANDS_FAIR
								   : SC_STANDS_BADLY,
				"%zu sizes were measured: median error %.2f %%, p90 %.2f %%.",
				sizes->n_measured, sizes->median_ape_pct, sizes->p90_ape_pct);
	else if (sc_collective_other(opts))
		sc_json_verdict(json, SC_STANDS,
				"%s is faster than the library's choice at %zu of %zu sizes.",
				sc_collective_other(opts), sizes->n_wins, sizes->n);
	else
		sc_json_verdict(json, SC_STANDS, "%s of %s takes %s, limited by %s.",
				sc_collective_names[opts->kind], sc_strbuf_get(&size),
				sc_strbuf_get(&time), p->limit);
	sc_strbuf_release(&size);
	sc_strbuf_release(&time);
}

static void put_collective_json(const void *result, struct sc_json *json)
{
	const struct sc_collective_sizes *sizes = result;
	const struct sc_collective_sizes_opts *opts = sizes->opts;
	json_t *points;

	sc_json_init(json, "stepcast/collective", COLLECTIVE_VERSION);
	sc_json_text(json, json->root, "collective", sc_collective_names[opts->kind]);
	sc_json_int(json, json->root, "ranks", opts->span.n_ranks);
	sc_json_int(json, json->root, "nodes", opts->span.n_nodes);
	sc_json_text(json, json->root, "device", opts->device);
	add_collective_verdict(json, opts, sizes);
	points = sc_json_array(json, json->root, "points");
	for (size_t i = 0; i < sizes->n; i++) {
		const struct sc_collective_point *p = &sizes->points[i];
		json_t *point = sc_json_object(json, points, NULL);

		SC_JSON_PUT(json, point, *p, bytes, time_us, algbw_gbps, busbw_gbps);
		SC_JSON_PUT(json, point, *p, algorithm, protocol, channels, limit);
		if (opts->n_others)
			sc_json_real(json, point, "together_us", p->together_us);
		if (opts->measured)
			sc_json_known_real(json, point, "measured_us", p->measured_us);
		if (sc_collective_other(opts)) {
			sc_json_known_real(json, point, "file_us", p->file_us);
			sc_json_text(json, point, "file_limit", p->file_limit);
		}
	}
	if (sc_collective_other(opts)) {
		SC_JSON_PUT(json, json->root, *sizes, best_speedup, best_bytes, n_wins);
	}
	if (opts->measured) {
		sc_json_int(json, json->root, "n_measured", (int64_t)sizes->n_measured);
		SC_JSON_KNOWN(json, json->root, *sizes, median_ape_pct, p90_ape_pct);
	}
}

const struct sc_forms sc_collective_forms = {.json = put_collective_json,
					     .text = put_collective_text};

/* The GPUs that jobs of one node get, as text and JSON. */

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

static void put_place_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_collective_place *place = result;
	const struct sc_collective_place_opts *opts = place->opts;

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

	SC_JSON_PUT(json, object, *placement, sum_us, longest_us);
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

static void put_place_json(const void *result, struct sc_json *json)
{
	const struct sc_collective_place *place = result;
	const struct sc_collective_place_opts *opts = place->opts;

	sc_json_init(json, "stepcast/place", PLACE_VERSION);
	sc_json_text(json, json->root, "collective", sc_collective_names[opts->kind]);
	sc_json_real(json, json->root, "bytes", opts->bytes);
	sc_json_int(json, json->root, "n_tried", (int64_t)place->n_tried);
	put_placement(json, opts, "in_turn", &place->in_turn);
	put_placement(json, opts, "best", &place->best);
}

const struct sc_forms sc_place_forms = {.json = put_place_json, .text = put_place_text};
