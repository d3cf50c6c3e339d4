/* Sizes of the number formats. */
#include "core/op.h"

double sc_dtype_bytes(enum sc_dtype dtype)
{
	static const double bytes[] = {
		[SC_FP32] = 4, [SC_TF32] = 4, [SC_FP16] = 2, [SC_BF16] = 2, [SC_FP8] = 1,
	};

	return bytes[dtype];
}
