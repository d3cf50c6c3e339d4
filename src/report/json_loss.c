/* What traces lost, as info and replay say it in JSON. */
#include "report/loss_json.h"

void sc_json_loss(struct sc_json *json, json_t *parent, const struct sc_trace_loss *loss)
{
	json_t *object;

	if (!loss->n_files) {
		sc_json_text(json, parent, "loss", NULL);
		return;
	}
	object = sc_json_object(json, parent, "loss");
	sc_json_int(json, object, "n_events", loss->n_lost);
	sc_json_real(json, object, "frac", sc_trace_loss_frac(loss));
	sc_json_bool(json, object, "counted", !loss->is_estimate && !loss->is_unknown);
	sc_json_bool(json, object, "more_unknown", loss->is_unknown);
	sc_json_bool(json, object, "ends_early", loss->is_cut);
	sc_json_bool(json, object, "stands", sc_trace_loss_stands(loss));
	sc_json_int(json, object, "n_files", (int64_t)loss->n_files);
	sc_json_text(json, object, "reason", loss->reason);
}
