/* Operator timelines of jobs: CSV, plain or packed. */
#include "import_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_bytes(&sc_import_job, data, size, false);
	return 0;
}
