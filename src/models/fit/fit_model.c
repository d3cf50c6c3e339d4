/* The profile under change: a copy of the device's and the fabric's coefficients, the list of those
 * that are fitted, and the time they give a row. */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "models/collective/collective_priv.h"
#include "models/fit/fit_priv.h"
#include "models/op_model.h"

/* A start this close to a bound, relative to the range in logs, would hardly move. */
#define START_MARGIN 0.02
/* A launch shows as a plateau: the shortest rows take nearly the same time, far above what their
 * peaks need, and longer than a kernel's own start. */
#define LAUNCH_FLOOR_US 20.0
#define LOWEST_PCT 0.5
#define PLATEAU_RATIO 1.4
#define PLATEAU_FRAC 0.01 /* of the rows */
#define PLATEAU_BOUND_FRAC 0.25
#define PLATEAU_BOUND_RATIO 4.0 /* their peaks would let them differ by this */
#define PLATEAU_TAIL_PCT 10.0
#define LAUNCH_LOWER_US 0.1
#define LAUNCH_START_FRAC 0.6

static void copy_list(struct sc_structs *list, size_t elem_bytes, struct sc_arena *arena)
{
	void *copy = sc_arena_alloc(arena, list->n * elem_bytes);

	memcpy(copy, list->at, list->n * elem_bytes);
	list->at = copy;
}

int sc_fit_model_init(struct sc_fit_work *work, struct sc_err *err)
{
	struct sc_fit_model *model = &work->model;
	const struct sc_fit_set *set = &work->set;
	int rc = 0;

	*model = (struct sc_fit_model){.kind = work->opts->kind,
				       .device = work->start,
				       .n_devices = set->n_devices,
				       .requests = set->requests};
	model->devices = sc_arena_calloc(work->arena, set->n_devices, sizeof(*model->devices));
	for (size_t i = 0; i < set->n_devices; i++)
		model->devices[i] = *set->device[i];
	sc_fit_model_start(model, &work->start);
	if (model->kind != SC_FIT_COLLECTIVE)
		return 0;
	rc = sc_fabric_profile_load("default", work->arena, &model->profile, err);
	if (rc)
		return rc;
	copy_list(&model->profile.links, sizeof(struct sc_fabric_link), work->arena);
	copy_list(&model->profile.nets, sizeof(struct sc_fabric_net), work->arena);
	model->n_fabrics = set->n_requests;
	model->fabrics = sc_arena_calloc(work->arena, model->n_fabrics, sizeof(*model->fabrics));
	for (size_t i = 0; i < model->n_fabrics && rc == 0; i++) {
		model->requests[i].fabric_profile = model->profile; /* shares the lists */
		rc = sc_fabric_from_request(&model->requests[i], &model->fabrics[i], err);
	}
	return rc;
}

/* A number of a section of the device's profile. */
static double *coef_number(struct sc_device *device, const char *section, const char *key)
{
	const struct sc_field *at = sc_field_at(sc_device_fields, section);

	return (double *)(void *)((char *)device + at->offset + sc_field_at(at->sub, key)->offset);
}

static void copy_coefs(struct sc_device *to, const struct sc_device *from)
{
	to->gemm = from->gemm;
	to->simt = from->simt;
	to->attention = from->attention;
	to->rowwise = from->rowwise;
	to->embedding = from->embedding;
	to->host = from->host;
	to->interference = from->interference;
}

/* Makes anew what is made from the coefficients. With several devices, which tile the library has
 * for batched GEMMs, and whether rows can be too far apart, are each one's own; far_k is shared for
 * each MiB of the last cache. */
static void refresh(struct sc_fit_model *model)
{
	for (size_t i = 0; i < model->n_devices; i++) {
		struct sc_device *to = &model->devices[i];
		struct sc_simt_coef own = to->simt;

		copy_coefs(to, &model->device);
		if (model->n_devices == 1)
			continue;
		to->simt.batched_tile_m = own.batched_tile_m;
		to->simt.far_k = own.far_k > 0 ? model->device.simt.far_k * to->l2_mib : 0;
	}
	for (size_t i = 0; i < model->n_fabrics; i++) {
		model->requests[i].fabric_profile.ramp = model->profile.ramp;
		sc_fabric_from_request(&model->requests[i], &model->fabrics[i], NULL);
	}
}

void sc_fit_model_start(struct sc_fit_model *model, const struct sc_device *device)
{
	copy_coefs(&model->device, device);
	for (const struct sc_fit_coef *c = sc_fit_coefs_of("simt"); c->key && model->n_devices > 1;
	     c++)
		if (c->anew > 0)
			*coef_number(&model->device, "simt", c->key) = c->anew;
	for (const struct sc_fit_fixed *fixed = sc_fit_fixed; fixed->key && model->n_devices > 1;
	     fixed++)
		*coef_number(&model->device, fixed->section, fixed->key) = fixed->at;
	memset(model->launch_us, 0, sizeof(model->launch_us));
	memset(model->floor_us, 0, sizeof(model->floor_us));
	refresh(model);
}

void sc_fit_model_set(struct sc_fit_model *model, const struct sc_fit_params *params)
{
	for (size_t i = 0; i < params->n; i++)
		*params->at[i].place = params->at[i].value;
	refresh(model);
}

double sc_fit_predict_us(const struct sc_fit_model *model, const struct sc_fit_row *row,
			 double *spread_frac)
{
	const struct sc_device *device = &model->devices[row->device];
	double us = model->launch_us[row->origin], spread = 0;
	struct sc_op_time time;
	struct sc_fabric fabric;
	struct sc_cost cost;

	if (spread_frac)
		*spread_frac = row->told_us > 0             ? row->told_spread_frac
			       : model->kind == SC_FIT_HOST ? device->host.spread_frac
							    : model->profile.spread_frac;
	if (row->told_us > 0)
		return row->told_us;
	if (model->kind == SC_FIT_HOST)
		return row->dim[0] * device->host.launch_us;
	if (model->kind == SC_FIT_INTERFERENCE)
		return row->seen.comm_us > 0 ? sc_interfere_seen_pair_us(device, &row->seen)
					     : sc_interfere_seen_kernel_us(device, &row->seen);
	if (model->kind == SC_FIT_COLLECTIVE) {
		fabric = model->fabrics[row->request];
		fabric.asked[row->op[0].u.collective.kind] = row->only;
		if (fabric.curves.n == 0)
			return sc_collective_formula_us(&fabric, row->op[0].u.collective.kind,
							row->op[0].u.collective.bytes, &row->span);
		cost = sc_collective_cost(&fabric, &row->op[0].u.collective, &row->span, NULL);
		return sc_cost_alone_us(&cost);
	}
	for (unsigned i = 0; i < row->n_ops; i++) {
		sc_op_model_get(row->op[i].kind)->time(device, &row->op[i], &time);
		us += time.total_us;
		spread = fmax(spread, time.spread_frac);
	}
	if (spread_frac)
		*spread_frac = spread;
	return fmax(us, model->floor_us[row->origin]);
}

/* ---- parameters ---- */

static double within(double x, double lower, double upper)
{
	double margin = pow(upper / lower, START_MARGIN);

	return fmin(fmax(x, lower * margin), upper / margin);
}

static void add_param(struct sc_fit_params *params, struct sc_fit_param param, bool may_be_off)
{
	if (params->n == SC_FIT_MAX_PARAMS)
		return;
	param.start = *param.place;
	if (param.start <= 0 && may_be_off)
		param.status = SC_FIT_OFF;
	param.value = param.status == SC_FIT_OFF ? param.start
						 : within(param.start, param.lower, param.upper);
	param.standard_error = param.left_out_lowest = param.left_out_highest = NAN;
	params->at[params->n++] = param;
}

/* Those of `section` in `object`; `block` is what they are shown under. */
static void add_section(struct sc_fit_params *params, const char *section,
			const struct sc_field *fields, void *object, const char *block)
{
	for (const struct sc_fit_coef *c = sc_fit_coefs_of(section); c->key; c++)
		add_param(params,
			  (struct sc_fit_param){
				  .block = block,
				  .name = c->key,
				  .place = (double *)(void *)((char *)object +
							      sc_field_at(fields, c->key)->offset),
				  .lower = c->lower,
				  .upper = c->upper,
				  .anew = c->anew,
				  .minor = c->how & SC_FIT_MINOR},
			  c->how & SC_FIT_MAY_BE_OFF);
}

static void add_device_section(struct sc_fit_params *params, const char *section,
			       struct sc_device *device)
{
	const struct sc_field *at = sc_field_at(sc_device_fields, section);

	add_section(params, section, at->sub, (char *)device + at->offset, section);
}

static bool is_link_used(const struct sc_fit_model *model, const struct sc_fabric_link *link)
{
	for (size_t i = 0; i < model->n_devices; i++)
		if (sc_fabric_link_get(&model->profile, model->devices[i].vendor,
				       model->devices[i].cuda_capability) == link)
			return true;
	return false;
}

static bool is_net_used(const struct sc_fit_model *model, const struct sc_fabric_net *net)
{
	for (size_t i = 0; i < model->n_fabrics; i++) {
		const struct sc_config *config = &model->requests[i].config;

		if (config->gpus > config->cluster.gpus_per_node &&
		    sc_fabric_net_get(&model->profile, config->cluster.fabric) == net)
			return true;
	}
	return false;
}

/* The shortest rows of an origin, if they are a plateau. */
struct plateau {
	unsigned origin;
	double lowest_us; /* but for outliers: no launch takes longer */
	double median_us; /* of the rows on it */
	bool is_one;
	size_t n_rows;
};

static struct plateau find_plateau(const struct sc_fit_row *const *rows, size_t n, unsigned origin,
				   struct sc_arena *arena)
{
	struct sc_arena_mark mark = sc_arena_mark(arena);
	double *us = sc_arena_alloc(arena, (n + 1) * sizeof(*us));
	double *bound_us = sc_arena_alloc(arena, (n + 1) * sizeof(*bound_us));
	struct plateau out = {.origin = origin};
	size_t n_flat = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i]->origin == origin)
			us[out.n_rows++] = rows[i]->time_us;
	if (out.n_rows > 0) {
		sc_sort_doubles(us, out.n_rows);
		out.lowest_us = sc_percentile_sorted(us, out.n_rows, LOWEST_PCT);
		while (n_flat < out.n_rows && us[n_flat] <= PLATEAU_RATIO * out.lowest_us)
			n_flat++;
		out.median_us = sc_percentile_sorted(us, n_flat, 50);
		out.is_one = out.lowest_us >= LAUNCH_FLOOR_US &&
			     out.lowest_us <= PLATEAU_RATIO * us[0] &&
			     (double)n_flat >= PLATEAU_FRAC * (double)out.n_rows;
	}
	n_flat = 0;
	for (size_t i = 0; i < n; i++)
		if (rows[i]->origin == origin && rows[i]->time_us <= PLATEAU_RATIO * out.lowest_us)
			bound_us[n_flat++] = rows[i]->bound_us;
	if (out.is_one) {
		sc_sort_doubles(bound_us, n_flat);
		out.is_one = sc_percentile_sorted(bound_us, n_flat, 50) <=
				     PLATEAU_BOUND_FRAC * out.lowest_us &&
			     sc_percentile_sorted(bound_us, n_flat, 100 - PLATEAU_TAIL_PCT) >=
				     PLATEAU_BOUND_RATIO * sc_percentile_sorted(bound_us, n_flat,
										PLATEAU_TAIL_PCT);
	}
	sc_arena_rewind(arena, mark);
	return out;
}

static void add_launches(const struct sc_fit_work *work, struct sc_fit_model *model,
			 const struct sc_fit_row *const *rows, size_t n,
			 struct sc_fit_params *params)
{
	size_t n_with = 0, n_all = 0;

	for (unsigned i = 0; i < work->set.n_origins; i++) {
		struct plateau plateau = find_plateau(rows, n, i, work->arena);

		n_all += plateau.n_rows > 0;
		if (plateau.n_rows == 0 ||
		    (work->opts->launch == SC_FIT_LAUNCH_AUTO && !plateau.is_one))
			continue;
		/* The host's part of an origin's times: max(floor, launch + kernels). Without rows
		 * that show a floor there is none: that parameter's start is 0. */
		double lower = fmin(LAUNCH_LOWER_US, plateau.lowest_us / 10);

		model->launch_us[plateau.origin] = LAUNCH_START_FRAC * plateau.lowest_us;
		add_param(params,
			  (struct sc_fit_param){.block = "launch",
						.name = work->set.origin[i].label,
						.place = &model->launch_us[plateau.origin],
						.lower = lower,
						.upper = plateau.lowest_us},
			  false);
		model->floor_us[plateau.origin] = plateau.median_us;
		add_param(params,
			  (struct sc_fit_param){.block = "floor",
						.name = work->set.origin[i].label,
						.place = &model->floor_us[plateau.origin],
						.lower = lower,
						.upper = PLATEAU_RATIO * plateau.lowest_us,
						.minor = true},
			  false);
		params->at[params->n - 1].start = 0;
		n_with++;
	}
	/* every row has a launch: its kernel's own start cannot be told from it */
	for (size_t i = 0; n_with == n_all && i < params->n; i++)
		if (strcmp(params->at[i].name, "fixed_us") == 0)
			params->at[i].status = SC_FIT_UNDETERMINED;
}

/* "links nvlink4", "eff" */
static bool matches(const char *pattern, const struct sc_fit_param *p, struct sc_arena *arena)
{
	return fnmatch(pattern, sc_arena_printf(arena, "%s.%s", p->block, p->name), 0) == 0;
}

int sc_fit_check_keep(const struct sc_fit_work *work, struct sc_err *err)
{
	const struct sc_fit_params *params = &work->params;

	for (size_t i = 0; i < work->opts->n_keep; i++) {
		const char *pattern = work->opts->keep[i];
		bool any = false;

		for (size_t k = 0; k < params->n && !any; k++)
			any = matches(pattern, &params->at[k], work->arena);
		if (!any)
			return sc_err_set(err, SC_EUSAGE,
					  "--keep \"%.64s\" is of no coefficient of these rows; "
					  "write it as in \"links nvlink4.eff\" or \"ramp.*\"",
					  pattern);
	}
	return 0;
}

/* Starts machines where no machine is. */
static void start_anew(const struct sc_fit_work *work, struct sc_fit_params *params)
{
	for (size_t i = 0; i < params->n; i++) {
		struct sc_fit_param *p = &params->at[i];

		if (p->status != SC_FIT_FITTED)
			continue;
		for (size_t k = 0; k < work->opts->n_keep; k++)
			if (matches(work->opts->keep[k], p, work->arena))
				p->status = SC_FIT_KEPT;
		if (p->status == SC_FIT_FITTED)
			p->start = p->anew;
		p->value = p->start;
	}
}

void sc_fit_params_list(struct sc_fit_work *work, const struct sc_fit_row *const *rows, size_t n,
			struct sc_fit_params *out)
{
	struct sc_fit_model *model = &work->model;

	out->n = 0;
	if (model->kind == SC_FIT_COLLECTIVE) {
		/* The links of the devices' generations, the network kinds that rows go over; of
		 * several machines what all share. */
		const struct sc_field *links_at = sc_field_at(sc_fabric_fields, "links");
		const struct sc_field *nets_at = sc_field_at(sc_fabric_fields, "nets");
		struct sc_fabric_net *nets = model->profile.nets.at;
		struct sc_fabric_link *links = model->profile.links.at;

		for (size_t i = 0; i < model->profile.links.n; i++)
			if (is_link_used(model, &links[i]))
				add_section(out, "links", links_at->sub, &links[i],
					    sc_arena_printf(work->arena, "links %s", links[i].id));
		for (size_t i = 0; i < model->profile.nets.n; i++)
			if (is_net_used(model, &nets[i]))
				add_section(out, "nets", nets_at->sub, &nets[i],
					    sc_arena_printf(work->arena, "nets %s", nets[i].kind));
		if (sc_fit_of_machines(work->opts))
			add_section(out, "ramp", sc_field_at(sc_fabric_fields, "ramp")->sub,
				    &model->profile.ramp, "ramp");
	} else
		add_device_section(out, sc_fit_sections[model->kind], &model->device);
	if (model->kind == SC_FIT_GEMM)
		add_device_section(out, "simt", &model->device);
	if (work->opts->launch != SC_FIT_LAUNCH_NONE && model->kind < SC_FIT_HOST)
		add_launches(work, model, rows, n, out);
	if (sc_fit_of_machines(work->opts))
		start_anew(work, out);
	for (size_t i = 0; i < out->n; i++)
		if (out->at[i].status == SC_FIT_UNDETERMINED)
			out->at[i].value = out->at[i].start;
}
