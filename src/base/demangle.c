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
