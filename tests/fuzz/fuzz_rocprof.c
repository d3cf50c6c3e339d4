/* What rocprofv3 writes, JSON and CSV, whole and broken. */
#include "import_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_bytes(&sc_import_rocprof, data, size, false);
	return 0;
}
