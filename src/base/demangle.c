/* The name of a C++ function as it was written, by the ABI's own function where the C++ runtime is
 * linked in; a build without it gives NULL, and callers keep the mangled name. */
#include "base/demangle.h"

#include <stddef.h>
#include <string.h>

#ifdef SC_CXX_RUNTIME
/* The Itanium C++ ABI, cxxabi.h. */
extern char *__cxa_demangle(const char *name, char *buf, size_t *n_buf, int *status);

char *sc_demangle(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 ? __cxa_demangle(name, NULL, NULL, NULL) : NULL;
}
#else
char *sc_demangle(const char *name)
{
	(void)name;
	return NULL;
}
#endif
