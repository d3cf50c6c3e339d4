/* Tables of collectives, and of kernels that run beside them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "models/collective.h"
#include "predict/recorded/build_trace.h"
#include "predict/recorded/kernel_family.h"
#include "predict/recorded/trace_tables_priv.h"

static int load(const struct trace_table_run *table, struct sc_trace_run *run, struct sc_err *err)
{
	return sc_trace_run_load(table->files, table->n_files, NULL, run, err);
}

static int ranks_of(const struct sc_trace_run *run, const struct sc_trace_collective *c,
		    int32_t instance)
{
	if (c->group_size > 0)
		return c->group_size;
	if (run->world > 0)
		return run->world;
	return instance >= 0 ? (int)run->merge.instances.at[instance].n_members : 0;
}

/* One row an instance. Where one rank was recorded, its time has waiting in it: "bound". */
int sc_trace_table_collectives(const struct trace_table_run *table, struct sc_err *err)
{
	struct sc_trace_run run;
	uint8_t *done;
	int rc = load(table, &run, err);

	if (rc)
		return rc;
	done = sc_xmalloc(run.merge.instances.n + 1);
	memset(done, 0, run.merge.instances.n + 1);
	fprintf(table->out, "source,device,collective,ranks,bytes,time_us,quality\n");
	for (size_t r = 0; r < run.ranks.n; r++)
		for (size_t i = 0; i < run.ranks.at[r].collectives.n; i++) {
			const struct sc_trace_collective *c = &run.ranks.at[r].collectives.at[i];
			const struct sc_merge_call *call = &run.merge.ranks.at[r].calls.at[i];
			const bool split =
				call->instance >= 0 && !isnan(run.transfer_us.at[call->instance]);

			if (c->kind < 0 || c->bytes < 0 ||
			    (call->instance >= 0 && done[call->instance]))
				continue;
			if (call->instance >= 0)
				done[call->instance] = 1;
			fprintf(table->out, "trace,%s,%s,%d,%lld,%.3f,%s\n", table->device,
				sc_collective_names[c->kind], ranks_of(&run, c, call->instance),
				(long long)c->bytes,
				split ? run.transfer_us.at[call->instance] : c->bound_us,
				split ? "good" : "bound");
		}
	free(done);
	sc_trace_run_release(&run);
	return 0;
}

/* ---- overlaps ---- */

/* Of a rank: the median time by name of the kernels that nothing of the other kind ran beside. */
struct alone {
	uint32_t name;
	double us;
};
struct alone_list {
	SC_VEC(struct alone) list;
};

static int compare_alone(const void *left, const void *right)
{
	const struct alone *a = left, *b = right;

	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return (a->us > b->us) - (a->us < b->us);
}

static double us_of(int64_t ns)
{
	return (double)ns / (double)SC_NS_PER_US;
}

static bool is_comm(const struct sc_act *act)
{
	return act->kind == SC_ACT_COLLECTIVE;
}

/* How much of an activity runs beside activities of the other kind; the longest of them in `beside`. */
static int64_t overlap(const struct sc_trace_rank *r, uint32_t a, uint32_t from, uint32_t *beside)
{
	const struct sc_act *act = &r->acts.at[a];
	int64_t sum = 0, longest = 0, covered = act->start_ns;

	*beside = SC_NONE;
	for (uint32_t b = from; b < r->acts.n && r->acts.at[b].start_ns < sc_act_end(act); b++) {
		const struct sc_act *other = &r->acts.at[b];
		int64_t begin = other->start_ns, end = sc_act_end(other);

		if (other->kind > SC_ACT_COLLECTIVE || is_comm(other) == is_comm(act))
			continue;
		begin = begin < act->start_ns ? act->start_ns : begin;
		end = end > sc_act_end(act) ? sc_act_end(act) : end;
		if (end <= begin)
			continue;
		if (end - begin > longest) {
			longest = end - begin;
			*beside = b;
		}
		begin = begin < covered ? covered : begin;
		sum += end > begin ? end - begin : 0;
		covered = end > covered ? end : covered;
	}
	return sum;
}

/* Activities before `from` have ended when this one starts. */
static uint32_t first_beside(const struct sc_trace_rank *r, const int64_t *longest_end, uint32_t a)
{
	uint32_t from = a;

	while (from > 0 && longest_end[from - 1] > r->acts.at[a].start_ns)
		from--;
	return from;
}

static double time_alone(const struct alone_list *alone, uint32_t name)
{
	size_t low = 0, high = alone->list.n, end;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (alone->list.at[middle].name < name)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < alone->list.n && alone->list.at[end].name == name; end++)
		;
	return end > low ? alone->list.at[low + (end - low - 1) / 2].us : (double)NAN;
}

static void put_us(FILE *out, double us)
{
	if (isnan(us))
		fputc(',', out);
	else
		fprintf(out, ",%.3f", us);
}

static void put_name(FILE *out, const char *name)
{
	fputc('"', out);
	for (; *name; name++) {
		if (*name == '"')
			fputc('"', out);
		fputc(*name, out);
	}
	fputc('"', out);
}

static void put_overlap(const struct trace_table_run *table, const struct sc_trace_run *run,
			const struct sc_trace_rank *r, uint32_t a, uint32_t beside,
			double overlap_us, const struct alone_list *alone)
{
	const struct sc_act *act = &r->acts.at[a], *comm = &r->acts.at[beside];
	const struct sc_trace_collective *c = &r->collectives.at[comm->merge_call];

	fprintf(table->out, "%s,%d,", table->device, (int)r->rank);
	put_name(table->out, sc_trace_run_name(run, act->name));
	fprintf(table->out, ",%s,",
		sc_kernel_family_name((enum sc_kernel_family)run->family.at[act->name]));
	put_name(table->out, sc_trace_run_name(run, comm->name));
	fprintf(table->out, ",%s,%lld,%.3f", c->kind < 0 ? "" : sc_collective_names[c->kind],
		(long long)c->bytes, us_of(act->dur_ns));
	put_us(table->out, time_alone(alone, act->name));
	fprintf(table->out, ",%.3f,%.3f,%.3f\n", us_of(comm->dur_ns), c->bound_us, overlap_us);
}

static void rank_overlaps(const struct trace_table_run *table, const struct sc_trace_run *run,
			  const struct sc_trace_rank *r)
{
	int64_t *longest_end = sc_xmalloc((r->acts.n + 1) * sizeof(*longest_end));
	struct alone_list alone = {.list = {0}};
	uint32_t beside;

	for (size_t i = 0; i < r->acts.n; i++) {
		longest_end[i] = sc_act_end(&r->acts.at[i]);
		if (i && longest_end[i - 1] > longest_end[i])
			longest_end[i] = longest_end[i - 1];
	}
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t a = 0; a < r->acts.n; a++) {
			const struct sc_act *act = &r->acts.at[a];
			int64_t ns;

			if (act->kind != SC_ACT_KERNEL)
				continue;
			ns = overlap(r, a, first_beside(r, longest_end, a), &beside);
			if (pass == 0 && beside == SC_NONE) {
				const struct alone one = {act->name, us_of(act->dur_ns)};

				SC_VEC_PUSH(&alone.list, one);
			}
			if (pass && beside != SC_NONE)
				put_overlap(table, run, r, a, beside, us_of(ns), &alone);
		}
		if (alone.list.n)
			qsort(alone.list.at, alone.list.n, sizeof(*alone.list.at), compare_alone);
	}
	SC_VEC_RELEASE(&alone.list);
	free(longest_end);
}

int sc_trace_table_overlaps(const struct trace_table_run *table, struct sc_err *err)
{
	struct sc_trace_run run;
	int rc = load(table, &run, err);

	if (rc)
		return rc;
	fprintf(table->out, "device,rank,kernel,family,comm_kernel,collective,bytes,time_us,"
			    "alone_us,comm_us,comm_alone_us,overlap_us\n");
	for (size_t r = 0; r < run.ranks.n; r++)
		rank_overlaps(table, &run, &run.ranks.at[r]);
	sc_trace_run_release(&run);
	return 0;
}
