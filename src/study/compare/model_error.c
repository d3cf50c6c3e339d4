/* Model error as lognormal factors on the speeds of kernels, links and the host. Spreads come from
 * the prediction's band, the fabric's profile and the device's host profile. */
#include "study/compare/model_error.h"

#include <math.h>

#include "base/stats.h"

struct sc_model_error sc_model_error_of(const struct sc_request *request)
{
	return (struct sc_model_error){
		.kernels = log(sc_band_factor(request->band, 80)) / SC_Z_CENTRAL_80,
		.links = request->fabric_profile.spread_frac,
		.host = request->device.host.spread_frac,
	};
}

void sc_model_error_draw(const struct sc_model_error *error, struct sc_rng *rng,
			 struct sc_predict_opts *out)
{
	sc_predict_opts_init(out);
	out->gemm_speed = exp(error->kernels * sc_rng_normal(rng));
	out->hbm_speed = exp(error->kernels * sc_rng_normal(rng));
	out->link_speed = exp(error->links * sc_rng_normal(rng));
	out->nic_speed = exp(error->links * sc_rng_normal(rng));
	out->host_speed = exp(error->host * sc_rng_normal(rng));
}
