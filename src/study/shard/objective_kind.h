/* What a sharding plan is ranked by. */
#ifndef SC_STUDY_OBJECTIVE_KIND_H
#define SC_STUDY_OBJECTIVE_KIND_H

enum sc_objective_kind {
	SC_OBJECTIVE_ITERATION, /* the predicted step; its problem is a proxy that adds up */
	SC_OBJECTIVE_TORCHREC,  /* the busiest rank by TorchRec's planner */
	SC_OBJECTIVE_HUGECTR    /* the busiest GPU by HugeCTR's planner */
};
extern const char *const sc_objective_names[]; /* NULL ends */

#endif
