/* Kineto traces, whole and broken. */
#include "import_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_bytes(&sc_import_kineto, data, size, false);
	return 0;
}
