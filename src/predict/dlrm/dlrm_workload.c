/* A DLRM as a workload: some training steps in a row, of which one is read. */
#include <stdlib.h>

#include "predict/dlrm/dlrm.h"

/* Steps until one is like the one before (the first has nothing to wait for), and another beside its end. */
enum { N_STEPS = 4 };

struct self {
	struct sc_dlrm dlrm;
	struct sc_graph graph;
	struct sc_dlrm_built built;
	struct sc_dlrm_run run;
};

static bool takes(const struct sc_request *request)
{
	return request->config.model.family == SC_DLRM;
}

static void *create(void)
{
	struct self *self = sc_xcalloc(1, sizeof(*self));

	sc_graph_init(&self->graph);
	self->run = (struct sc_dlrm_run){
		.dlrm = &self->dlrm, .graph = &self->graph, .built = &self->built};
	return self;
}

static void destroy(void *p)
{
	struct self *self = p;

	sc_graph_release(&self->graph);
	free(self);
}

static int init(void *p, const struct sc_setup *setup, struct sc_err *err)
{
	return sc_dlrm_init(&((struct self *)p)->dlrm, setup, err);
}

static int build(void *p, struct sc_graph **graph, struct sc_err *err)
{
	struct self *self = p;

	(void)err;
	sc_dlrm_build(&self->dlrm, N_STEPS, &self->graph, &self->built);
	*graph = &self->graph;
	return 0;
}

static void op_info(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	struct self *self = p;

	self->run.timeline = timeline;
	sc_dlrm_op_info(&self->run, out);
}

static void conclude(void *p, struct sc_prediction *out)
{
	sc_dlrm_conclude(&((struct self *)p)->run, out);
}

static void release(void *p)
{
	sc_dlrm_release(&((struct self *)p)->dlrm);
}

const struct sc_workload sc_dlrm_workload = {
	.takes = takes,
	.create = create,
	.destroy = destroy,
	.init = init,
	.build = build,
	.op_info = op_info,
	.conclude = conclude,
	.release = release,
};
