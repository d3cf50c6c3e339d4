/* Each check looks at one habit that costs time or memory, over a plan's terms. Limits are the
 * shares below. */
#include "study/shard/shard_lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "base/units.h"

#define REPLICA_GIB 1.0    /* a larger data-parallel table is odd */
#define NARROW_COLS 32     /* narrower slices of columns are */
#define CONSTANT_RATIO 1.5 /* constants this much off the device's are */
#define FULL_FRAC 0.95     /* of a rank's budget */

static void add_lint(sc_lints *out, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void add_lint(sc_lints *out, const char *code, const char *fmt, ...)
{
	struct sc_lint lint = {.code = code};
	va_list args;

	va_start(args, fmt);
	vsnprintf(lint.text, sizeof(lint.text), fmt, args);
	va_end(args);
	SC_VEC_PUSH(out, lint);
}

struct found {
	size_t n;
	const char *first;
	double worst;
};

static void count(struct found *found, const char *table, double value, bool is_worse)
{
	if (!found->n++) {
		found->first = table;
		found->worst = value;
	} else if (is_worse) {
		found->worst = value;
	}
}

static void lint_tables(const struct sc_shard_plan *plan, const struct sc_shard_problem *problem,
			sc_lints *out)
{
	struct found one_host = {0}, narrow = {0}, one_rank = {0};

	for (size_t i = 0; i < plan->tables.n; i++) {
		const struct sc_table_placement *t = &plan->tables.at[i];
		int64_t cols = t->dim;

		for (uint32_t k = 0; k < t->n_shards; k++)
			if (plan->shards.at[t->first_shard + k].cols < cols)
				cols = plan->shards.at[t->first_shard + k].cols;
		if ((t->type == SC_TABLE_ROW_WISE || t->type == SC_GRID) &&
		    problem->world <= problem->ranks_per_host)
			count(&one_host, t->name, 0, false);
		if (cols < t->dim && cols < NARROW_COLS)
			count(&narrow, t->name, (double)cols, (double)cols < narrow.worst);
		if (t->type == SC_ROW_WISE && t->n_shards == 1)
			count(&one_rank, t->name, 0, false);
	}
	if (one_host.n)
		add_lint(
			out, "host-wise-on-one-host",
			"%zu table%s %s table_row_wise or grid on one host, where row_wise is the same "
			"without the second exchange; first=%.64s",
			one_host.n, sc_plural(one_host.n), one_host.n == 1 ? "is" : "are",
			one_host.first);
	if (narrow.n)
		add_lint(out, "narrow-columns",
			 "%zu table%s %s slices below %d columns, which waste part of each memory "
			 "sector and add a row's overhead; narrowest=%.0f first=%.64s",
			 narrow.n, sc_plural(narrow.n), narrow.n == 1 ? "has" : "have", NARROW_COLS,
			 narrow.worst, narrow.first);
	if (one_rank.n)
		add_lint(out, "row-wise-on-one-rank",
			 "%zu table%s %s row_wise on a single rank; first=%.64s", one_rank.n,
			 sc_plural(one_rank.n), one_rank.n == 1 ? "is" : "are", one_rank.first);
}

static void lint_replicas(const struct sc_shard_problem *problem,
			  const struct sc_shard_terms *terms, sc_lints *out)
{
	struct found large = {0};
	double all_gib = 0;

	for (size_t i = 0; i < terms->at.n; i++) {
		const struct sc_shard_term *term = &terms->at.at[i];
		const struct sc_table *table = &problem->tables[term->table];
		double gib = sc_table_bytes(table) / SC_BYTES_PER_GIB;

		if (term->type != SC_DATA_PARALLEL || term->rank != 0 || gib <= REPLICA_GIB)
			continue;
		count(&large, table->name, gib, gib > large.worst);
		all_gib += gib;
	}
	if (large.n)
		add_lint(out, "large-replicas",
			 "%zu data_parallel table%s of more than %g GiB %s %.1f GiB on every rank; "
			 "largest_gib=%.1f first=%.64s",
			 large.n, sc_plural(large.n), REPLICA_GIB, large.n == 1 ? "takes" : "take",
			 all_gib, large.worst, large.first);
}

static void lint_ranks(const struct sc_shard_problem *problem, const struct sc_shard_terms *terms,
		       sc_lints *out)
{
	double *hbm = sc_xrealloc(NULL, (size_t)problem->world + 1, sizeof(*hbm));
	size_t n_idle = 0, n_full = 0, n_over = 0;
	uint32_t first_idle = 0, first_full = 0;

	for (uint32_t rank = 0; rank < problem->world; rank++)
		hbm[rank] = -1;
	for (size_t i = 0; i < terms->at.n; i++) {
		double *at = &hbm[terms->at.at[i].rank];

		*at = (*at < 0 ? 0 : *at) + terms->at.at[i].hbm_bytes;
	}
	for (uint32_t rank = 0; rank < problem->world; rank++) {
		double budget = sc_rank_budget(problem, rank);

		if (hbm[rank] < 0 && !n_idle++)
			first_idle = rank;
		if (budget > 0 && hbm[rank] > budget * FULL_FRAC && !n_full++)
			first_full = rank;
		n_over += budget > 0 && hbm[rank] > budget;
	}
	if (n_idle)
		add_lint(out, "idle-ranks", "%zu rank%s %s no shard; first=%u", n_idle,
			 sc_plural(n_idle), n_idle == 1 ? "has" : "have", first_idle);
	if (n_full)
		add_lint(
			out, n_over ? "over-budget" : "full-ranks",
			"%zu rank%s %s more than %.0f %% of the budget, %zu more than all; first=%u "
			"used_gib=%.1f",
			n_full, sc_plural(n_full), n_full == 1 ? "uses" : "use", SC_PCT * FULL_FRAC,
			n_over, first_full, hbm[first_full] / SC_BYTES_PER_GIB);
	free(hbm);
}

void sc_lint_plan(const struct sc_shard_problem *problem, const struct sc_shard_plan *plan,
		  const struct sc_shard_terms *terms, sc_lints *out)
{
	lint_tables(plan, problem, out);
	lint_replicas(problem, terms, out);
	lint_ranks(problem, terms, out);
}

void sc_lint_constants(const struct sc_torchrec_topology *topology, const struct sc_device *device,
		       sc_lints *out)
{
	double bytes_ms_per_gbps = SC_BYTES_US_PER_GBPS * SC_US_PER_MS;
	double planner_gbps = topology->hbm_bw / bytes_ms_per_gbps;
	double link_gbps = topology->intra_bw / bytes_ms_per_gbps;
	double device_link = (double)device->nvlink_links * device->nvlink_link_gbps;
	double ratio = CONSTANT_RATIO;

	if (device->hbm_gbps > planner_gbps * ratio || planner_gbps > device->hbm_gbps * ratio)
		add_lint(
			out, "hbm-constant",
			"TorchRec's constants cost HBM at %.0f GB/s, %s has %.0f; plans are ranked as on "
			"another GPU",
			planner_gbps, device->id, device->hbm_gbps);
	if (device_link > 0 && (device_link > link_gbps * ratio || link_gbps > device_link * ratio))
		add_lint(out, "link-constant",
			 "TorchRec's constants cost the links of a host at %.0f GB/s, %s has %.0f",
			 link_gbps, device->id, device_link);
}
