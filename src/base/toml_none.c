/* In place of toml_tree.cpp where toml++ or a C++ compiler is missing. */
#include "base/toml.h"

int sc_toml_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_yaml **out,
		  struct sc_err *err)
{
	(void)arena;
	(void)out;
	return sc_err_at(err, SC_EUNSUPPORTED, source->file, 0, 0,
			 "this build reads no TOML; install g++ and libtomlplusplus-dev, and build "
			 "again");
}
