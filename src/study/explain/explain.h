/* What would help: the same request predicted again with one resource faster. */
#ifndef SC_PREDICT_EXPLAIN_H
#define SC_PREDICT_EXPLAIN_H

#include "predict/predict.h"

enum { SC_N_WHAT_IFS = 5 };
struct sc_what_if {
	const char *resource; /* "gemm", "hbm", "link", "nic", "host" */
	const char *meaning;  /* "10 % faster GEMMs and attention" */
	double iteration_ms;
	double gain_pct; /* of the iteration time; below 0 if it got slower */
};
struct sc_explanation {
	double speed; /* 1.1 = each resource 10 % faster, one at a time */
	struct sc_what_if what_if[SC_N_WHAT_IFS];
	/* With twice the NICs in every node; NAN: one node. NCCL opens channels for them, whose blocks take SMs from
	 * the layers that hide them: it may be slower. */
	double twice_the_nics_ms;
};
/* `base` is what `opts` predicts. */
int sc_explain(struct sc_predictor *predictor, const struct sc_request *request,
	       const struct sc_predict_opts *opts, const struct sc_prediction *base,
	       struct sc_explanation *out, struct sc_err *err);

#endif
