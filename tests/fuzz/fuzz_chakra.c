/* Chakra's protobuf form. */
#include "import_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_bytes(&sc_import_chakra, data, size, false);
	return 0;
}
