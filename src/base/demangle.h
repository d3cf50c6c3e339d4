/* Names of C++ functions as people write them. */
#ifndef SC_BASE_DEMANGLE_H
#define SC_BASE_DEMANGLE_H

/* NULL: not a mangled name, or a build without the C++ runtime. To be freed. */
char *sc_demangle(const char *name);

#endif
