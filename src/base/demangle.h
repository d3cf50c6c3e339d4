/* Names of C++ functions as people write them. */
#pragma once

/* NULL: not a mangled name, or a build without the C++ runtime. To be freed. */
char *sc_demangle(const char *name);
