/* Computation and communication together in a recording, as text, JSON and CSV. */
#include <math.h>

#include "base/csv.h"
#include "base/json_out.h"
#include "base/units.h"
#include "report/c3_report.h"
#include "report/parts.h"
#include "study/c3/c3_recording.h"

enum { C3_RECORDING_VERSION = 1 };

static double group_slowdown(const struct sc_c3_seen_group *g)
{
	return g->alone_us > 0 ? g->time_us / g->alone_us : (double)NAN;
}

static double predicted_slowdown(const struct sc_c3_seen_group *g)
{
	return g->alone_us > 0 ? g->predicted_us / g->alone_us : (double)NAN;
}

static double realised_speedup(const struct sc_c3_recording *r)
{
	return r->n_known ? r->serial_us / r->known_us : (double)NAN;
}

static double ideal_speedup(const struct sc_c3_recording *r)
{
	return r->n_known ? r->serial_us / r->longer_us : (double)NAN;
}

/* ---- text ---- */

static void append_group(const struct sc_c3_seen_group *g, struct sc_strbuf *out)
{
	const double ms = (double)SC_US_PER_MS;

	sc_strbuf_printf(out, "  %-14s %7zu %7zu",
			 !g->name   ? "all"
			 : *g->name ? g->name
				    : "-",
			 g->n, g->n_known);
	sc_text_known(g->n_known ? g->alone_us / ms : (double)NAN, 10, 3, out);
	sc_text_known(g->n_known ? g->time_us / ms : (double)NAN, 10, 3, out);
	sc_text_known(group_slowdown(g), 10, 2, out);
	sc_text_known(predicted_slowdown(g), 10, 2, out);
	sc_text_known(g->accuracy.mape_pct, 10, 1, out);
	sc_strbuf_append_char(out, '\n');
}

static void append_side(const char *what, const struct sc_c3_seen_side *side, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "\n%s\n  %-14s %7s %7s %10s %10s %10s %10s %10s\n", what, "", "n",
			 "known", "alone ms", "beside ms", "slowdown", "predicted", "MAPE %");
	for (size_t i = 0; i < side->groups.n; i++)
		append_group(&side->groups.at[i], out);
	append_group(&side->all, out);
}

static double gain_pct(const struct sc_c3_what_if *w, double us)
{
	return SC_PCT * (us / w->recorded_us - 1);
}

static void put_recording_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_c3_recording *r = result;
	const struct sc_c3_what_if *w = &r->what_if;
	const double ms = (double)SC_US_PER_MS;

	sc_strbuf_printf(out, "%zu rank%s, GPU %s (%s)\n", r->n_ranks, r->n_ranks == 1 ? "" : "s",
			 *r->gpu ? r->gpu : "not said", r->device ? r->device : "no device file");
	sc_strbuf_printf(out,
			 "%zu kernels compute for %.3f ms, %zu communicate for %.3f ms, both at "
			 "once %.3f ms; from first to last %.3f ms\n",
			 r->kernels.n_recorded, r->compute_us / ms, r->collectives.n_recorded,
			 r->comm_us / ms, r->both_us / ms, r->span_us / ms);
	append_side("kernels beside communication", &r->kernels, out);
	append_side("collectives beside computation", &r->collectives, out);
	sc_strbuf_printf(out, "\n%zu stretches in which both run", r->stretches.n);
	if (r->n_known)
		sc_strbuf_printf(out, "; of %zu, %.3f ms, all is known: speedup %.2f, ideal %.2f",
				 r->n_known, r->known_us / ms, realised_speedup(r),
				 ideal_speedup(r));
	sc_strbuf_append_char(out, '\n');
	if (!w->n)
		return;
	sc_strbuf_printf(out,
			 "\n%zu iteration%s replayed: %.3f ms as recorded; %.3f ms (%+.1f %%) if "
			 "kernels beside communication lost nothing\n",
			 w->n, sc_plural(w->n), w->recorded_us / ms, w->nothing_lost_us / ms,
			 gain_pct(w, w->nothing_lost_us));
	for (int p = 0; p < SC_N_C3_POLICIES; p++) {
		const char *name = sc_enum_name(sc_c3_policy_names, p);

		if (isnan(w->policy_us[p]))
			sc_strbuf_printf(out, "  %-24s          -\n", name);
		else
			sc_strbuf_printf(out, "  %-24s %10.3f ms  %+.1f %%\n", name,
					 w->policy_us[p] / ms, gain_pct(w, w->policy_us[p]));
	}
}

/* ---- JSON ---- */

static void put_group(struct sc_json *json, json_t *object, const struct sc_c3_seen_group *g)
{
	json_t *error = sc_json_object(json, object, "error_of_model");

	SC_JSON_PUT(json, object, *g, n, n_known, alone_us);
	sc_json_real(json, object, "beside_us", g->time_us);
	sc_json_known_real(json, object, "slowdown", group_slowdown(g));
	sc_json_known_real(json, object, "predicted_slowdown", predicted_slowdown(g));
	sc_json_int(json, error, "n", (int64_t)g->accuracy.n);
	SC_JSON_KNOWN(json, error, g->accuracy, mape_pct, median_ape_pct);
}

static void put_side(struct sc_json *json, const char *key, const struct sc_c3_seen_side *side)
{
	json_t *object = sc_json_object(json, json->root, key);
	json_t *groups = sc_json_object(json, object, "groups");

	put_group(json, object, &side->all);
	sc_json_int(json, object, "n_recorded", (int64_t)side->n_recorded);
	for (size_t i = 0; i < side->groups.n; i++) {
		const struct sc_c3_seen_group *g = &side->groups.at[i];

		put_group(json, sc_json_object(json, groups, *g->name ? g->name : "not known"), g);
	}
}

static void put_list(struct sc_json *json, const char *key, const struct sc_c3_seen_side *side)
{
	json_t *array = sc_json_array(json, json->root, key);

	for (size_t i = 0; i < side->list.n; i++) {
		const struct sc_c3_seen *s = &side->list.at[i];
		json_t *object = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, object, *s, rank, name, group, collective, time_us, overlap_us);
		SC_JSON_KNOWN(json, object, *s, bytes, alone_us, predicted_us);
		sc_json_known_real(json, object, "slowdown", s->time_us / s->alone_us);
	}
}

static void put_stretches(struct sc_json *json, const struct sc_c3_recording *r)
{
	json_t *array = sc_json_array(json, json->root, "stretches");

	for (size_t i = 0; i < r->stretches.n; i++) {
		const struct sc_overlap_stretch *s = &r->stretches.at[i];
		const double serial = s->compute_us + s->comm_us;
		json_t *object = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, object, *s, rank, device, start_us);
		sc_json_real(json, object, "time_us", s->us);
		sc_json_known_real(json, object, "compute_alone_us", s->compute_us);
		sc_json_known_real(json, object, "comm_alone_us", s->comm_us);
		sc_json_known_real(json, object, "speedup", serial / s->us);
		sc_json_known_real(json, object, "ideal_speedup",
				   isnan(serial) ? serial
						 : serial / fmax(s->compute_us, s->comm_us));
	}
}

static void put_totals(struct sc_json *json, const struct sc_c3_recording *r)
{
	json_t *root = json->root, *policies;

	sc_json_text(json, root, "gpu", *r->gpu ? r->gpu : NULL);
	SC_JSON_PUT(json, root, *r, device, n_ranks, both_us, span_us);
	sc_json_real(json, root, "compute_busy_us", r->compute_us);
	sc_json_real(json, root, "comm_busy_us", r->comm_us);
	sc_json_int(json, root, "n_pairs", (int64_t)r->kernels.list.n);
	sc_json_known_real(json, root, "compute_slowdown", group_slowdown(&r->kernels.all));
	sc_json_known_real(json, root, "comm_slowdown", group_slowdown(&r->collectives.all));
	sc_json_int(json, root, "n_stretches", (int64_t)r->stretches.n);
	sc_json_int(json, root, "n_stretches_known", (int64_t)r->n_known);
	sc_json_known_real(json, root, "speedup", realised_speedup(r));
	sc_json_known_real(json, root, "ideal_speedup", ideal_speedup(r));
	sc_json_int(json, root, "n_iterations_replayed", (int64_t)r->what_if.n);
	if (!r->what_if.n)
		return;
	sc_json_real(json, root, "replayed_us", r->what_if.recorded_us);
	sc_json_real(json, root, "replayed_nothing_lost_us", r->what_if.nothing_lost_us);
	policies = sc_json_object(json, root, "replayed_policies_us");
	for (int p = 0; p < SC_N_C3_POLICIES; p++)
		sc_json_known_real(json, policies, sc_enum_name(sc_c3_policy_names, p),
				   r->what_if.policy_us[p]);
}

static void put_recording_json(const void *result, struct sc_json *json)
{
	const struct sc_c3_recording *recording = result;

	sc_json_init(json, "stepcast/c3-recording", C3_RECORDING_VERSION);
	if (recording->n_known)
		sc_json_verdict(
			json, SC_STANDS,
			"Recorded: overlap is %.2f times as fast as one after the other; at most "
			"%.2f times would be possible.",
			realised_speedup(recording), ideal_speedup(recording));
	else
		sc_json_verdict(
			json, SC_STANDS_FAIR,
			"Recorded: nothing that overlapped ran alone too, so what overlap gains is "
			"not known.");
	put_totals(json, recording);
	put_side(json, "kernels", &recording->kernels);
	put_side(json, "collectives", &recording->collectives);
	put_list(json, "pairs", &recording->kernels);
	put_list(json, "collective_pairs", &recording->collectives);
	put_stretches(json, recording);
}

/* ---- CSV ---- */

static int put_csv(const void *result, FILE *out, struct sc_err *err)
{
	const struct sc_c3_recording *recording = result;

	fputs("source,device,op,kernel,computes,blocks,collective,comm_blocks,comm_load,beside_frac,alone_us,"
	      "time_us,predicted_us\n",
	      out);
	for (size_t i = 0; i < recording->kernels.list.n; i++) {
		const struct sc_c3_seen *s = &recording->kernels.list.at[i];
		const struct sc_interfere_seen *k = &s->known;

		if (isnan(s->predicted_us) || !(s->time_us > 0))
			continue;
		fprintf(out, "trace,%s,%s,", recording->device, s->group);
		sc_csv_put_cell(out, s->name);
		fprintf(out, ",%s,%.0f,%s,%.0f,%.4g,%.6g,%.3f,%.3f,%.3f\n",
			k->computes ? "true" : "false", k->blocks, s->collective, k->comm_blocks,
			k->comm_load, k->beside_frac, k->alone_us, s->time_us, s->predicted_us);
	}
	return sc_csv_end(out, err);
}

const struct sc_forms sc_c3_recording_forms = {
	.json = put_recording_json, .text = put_recording_text, .csv = put_csv};
