/* PyTorch execution traces; every other input is its own mate, too. */
#include "import_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_bytes(&sc_import_execution_trace, data, size, size % 2 == 1);
	return 0;
}
