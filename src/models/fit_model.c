/* The profile under change: a copy of the device's and the fabric's coefficients, the list of those
 * that are fitted, and the time they give a row. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/fit_priv.h"
#include "models/op_model.h"

/* A start this close to a bound, relative to the range in logs, would hardly move. */
#define START_MARGIN 0.02
/* A launch shows as a plateau: the shortest rows take nearly the same time, far above what their peaks
 * need, and longer than a kernel's own start. */
#define LAUNCH_FLOOR_US 20.0
#define LOWEST_PCT 0.5
#define PLATEAU_RATIO 1.4
#define PLATEAU_FRAC 0.01 /* of the rows */
#define PLATEAU_BOUND_FRAC 0.25
#define LAUNCH_LOWER_US 0.1
#define LAUNCH_START_FRAC 0.8

static void *copy_list(struct sc_structs *list, size_t elem_bytes, struct sc_arena *arena)
{
	void *copy = sc_arena_alloc(arena, list->n * elem_bytes);

	memcpy(copy, list->at, list->n * elem_bytes);
	list->at = copy;
	return copy;
}

static int init_fabrics(struct sc_fit_model *model, struct sc_arena *arena, struct sc_err *err)
{
	int rc = sc_fabric_profile_load("default", arena, &model->profile, err);

	if (rc)
		return rc;
	copy_list(&model->profile.links, sizeof(struct sc_fabric_link), arena);
	copy_list(&model->profile.nets, sizeof(struct sc_fabric_net), arena);
	model->fabrics = sc_arena_calloc(arena, model->n_fabrics, sizeof(*model->fabrics));
	for (size_t i = 0; i < model->n_fabrics && rc == 0; i++) {
		model->requests[i].device = model->device;
		model->requests[i].fabric_profile = model->profile; /* shares the lists */
		rc = sc_fabric_from_request(&model->requests[i], &model->fabrics[i], err);
	}
	return rc;
}

int sc_fit_model_init(struct sc_fit_model *model, const struct sc_device *device,
		      struct sc_fit_set *set, enum sc_fit_kind kind, struct sc_arena *arena,
		      struct sc_err *err)
{
	const struct sc_fit_coef_row *row = sc_fit_blocks[kind].rows;

	*model = (struct sc_fit_model){.kind = kind,
				       .device = *device,
				       .requests = set->requests,
				       .n_fabrics = set->n_requests};
	for (; row && row->name; row++)
		if (row->at > 0)
			memcpy((char *)&model->device + row->offset, &row->at, sizeof(row->at));
	return kind == SC_FIT_COLLECTIVE ? init_fabrics(model, arena, err) : 0;
}

void sc_fit_model_refresh(struct sc_fit_model *model)
{
	for (size_t i = 0; i < model->n_fabrics; i++)
		sc_fabric_from_request(&model->requests[i], &model->fabrics[i], NULL);
}

double sc_fit_predict_us(const struct sc_fit_model *model, const struct sc_fit_row *row)
{
	double us = model->launch_us[row->source];
	struct sc_op_time time;
	struct sc_cost cost;

	if (model->kind == SC_FIT_HOST)
		return row->launches * model->device.host.launch_us;
	if (model->kind == SC_FIT_COLLECTIVE) {
		sc_collective_cost(&model->fabrics[row->fabric], &row->op[0].u.collective,
				   &row->span, &cost, NULL);
		return cost.latency_us + cost.work_us;
	}
	for (unsigned i = 0; i < row->n_ops; i++) {
		sc_op_model_get(row->op[i].kind)->time(&model->device, &row->op[i], &time);
		us += time.total_us;
	}
	return us;
}

/* ---- parameters ---- */

static double within(double x, double lower, double upper)
{
	double margin = pow(upper / lower, START_MARGIN);

	return fmin(fmax(x, lower * margin), upper / margin);
}

static void add_param(struct sc_fit_params *params, struct sc_fit_param param)
{
	param.start = *param.place;
	if (param.start <= 0 && strcmp(param.name, "nvls_eff") == 0)
		param.status = SC_FIT_OFF;
	param.value = param.status == SC_FIT_OFF ? param.start
						 : within(param.start, param.lower, param.upper);
	param.standard_error = NAN;
	params->at[params->n++] = param;
}

static void add_block(struct sc_fit_params *params, const struct sc_fit_block *block, void *object,
		      const char *name)
{
	for (const struct sc_fit_coef_row *row = block->rows; row->name; row++) {
		if (row->at > 0 || params->n == SC_FIT_MAX_PARAMS)
			continue;
		add_param(params, (struct sc_fit_param){
					  .block = name,
					  .name = row->name,
					  .place = (double *)(void *)((char *)object + row->offset),
					  .lower = row->lower,
					  .upper = row->upper,
					  .minor = row->minor});
	}
}

/* The link of the device's generation, and the network kinds that rows go over. */
static void add_fabric(struct sc_fit_model *model, struct sc_fit_params *params,
		       struct sc_arena *arena)
{
	struct sc_fabric_net *nets = model->profile.nets.at;
	const struct sc_fabric_link *link = sc_fabric_link_get(
		&model->profile, model->device.vendor, model->device.cuda_capability);
	struct sc_fabric_link *links = model->profile.links.at;

	for (size_t i = 0; i < model->profile.links.n; i++)
		if (&links[i] == link)
			add_block(params, &sc_fit_links, &links[i],
				  sc_arena_printf(arena, "links %s", link->id));
	for (size_t i = 0; i < model->profile.nets.n; i++) {
		bool used = false;

		for (size_t j = 0; j < model->n_fabrics; j++) {
			const struct sc_config *config = &model->requests[j].config;

			used |= config->gpus > config->cluster.gpus_per_node &&
				sc_fabric_net_get(&model->profile, config->cluster.fabric) ==
					&nets[i];
		}
		if (used)
			add_block(params, &sc_fit_nets, &nets[i],
				  sc_arena_printf(arena, "nets %s", nets[i].kind));
	}
}

/* But for outliers. No launch takes longer than the shortest row. */
static double lowest_time_us(const struct sc_fit_set *set, unsigned source, struct sc_arena *arena)
{
	struct sc_arena_mark mark = sc_arena_mark(arena);
	double *us = sc_arena_alloc(arena, set->n * sizeof(*us)), lowest_us;
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		if (set->rows[i].source == source)
			us[n++] = set->rows[i].time_us;
	lowest_us = sc_percentile(us, n, LOWEST_PCT, arena);
	sc_arena_rewind(arena, mark);
	return lowest_us;
}

static bool has_plateau(const struct sc_fit_set *set, unsigned source, double lowest_us,
			struct sc_arena *arena)
{
	struct sc_arena_mark mark = sc_arena_mark(arena);
	double *bound_us = sc_arena_alloc(arena, set->n * sizeof(*bound_us)), median_us;
	double floor_us = lowest_us;
	size_t n = 0, n_flat = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct sc_fit_row *row = &set->rows[i];

		if (row->source != source)
			continue;
		n++;
		floor_us = fmin(floor_us, row->time_us);
		if (row->time_us <= PLATEAU_RATIO * lowest_us)
			bound_us[n_flat++] = row->bound_us;
	}
	median_us = sc_median(bound_us, n_flat, arena);
	sc_arena_rewind(arena, mark);
	return lowest_us >= LAUNCH_FLOOR_US && lowest_us <= PLATEAU_RATIO * floor_us &&
	       (double)n_flat >= PLATEAU_FRAC * (double)n &&
	       median_us <= PLATEAU_BOUND_FRAC * lowest_us;
}

static void add_launches(struct sc_fit_model *model, const struct sc_fit_set *set,
			 const struct sc_fit_opts *opts, struct sc_arena *arena,
			 struct sc_fit_params *params)
{
	size_t n_with = 0;

	for (unsigned i = 0; i < set->n_sources; i++) {
		double lowest_us = lowest_time_us(set, i, arena);

		if (opts->launch == SC_FIT_LAUNCH_AUTO && !has_plateau(set, i, lowest_us, arena))
			continue;
		model->launch_us[i] = LAUNCH_START_FRAC * lowest_us;
		add_param(params,
			  (struct sc_fit_param){.block = "launch",
						.name = set->source[i],
						.place = &model->launch_us[i],
						.lower = fmin(LAUNCH_LOWER_US, lowest_us / 10),
						.upper = lowest_us});
		n_with++;
	}
	/* every row has a launch: its kernel's own start cannot be told from it */
	for (size_t i = 0; n_with == set->n_sources && i < params->n; i++)
		if (strcmp(params->at[i].name, "fixed_us") == 0)
			params->at[i].status = SC_FIT_UNDETERMINED;
}

void sc_fit_params_list(struct sc_fit_model *model, const struct sc_fit_set *set,
			const struct sc_fit_opts *opts, struct sc_arena *arena,
			struct sc_fit_params *out)
{
	out->n = 0;
	if (model->kind == SC_FIT_COLLECTIVE)
		add_fabric(model, out, arena);
	else
		add_block(out, &sc_fit_blocks[model->kind], &model->device,
			  sc_fit_blocks[model->kind].name);
	if (opts->launch != SC_FIT_LAUNCH_NONE && model->kind < SC_FIT_HOST)
		add_launches(model, set, opts, arena, out);
	for (size_t i = 0; i < out->n; i++)
		if (out->at[i].status == SC_FIT_UNDETERMINED)
			out->at[i].value = out->at[i].start;
}

void sc_fit_params_apply(const struct sc_fit_params *params, struct sc_fit_model *model)
{
	for (size_t i = 0; i < params->n; i++)
		*params->at[i].place = params->at[i].value;
	sc_fit_model_refresh(model);
}
