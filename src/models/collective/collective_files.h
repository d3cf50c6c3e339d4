/* Algorithm files that cluster.algorithms names: collectives that they fit run them. A file is read
 * and proved once a request, and walked once a size. */
#pragma once

#include "models/collective/collective.h"

/* Loads the files into `fabric`, whose costs then follow them; they live as long as the arena.
 * Without a name nothing changes. Wrong files are named with line and column, those of another
 * collective where the config names them. SC_EUNSUPPORTED: walks over these links are unknown. */
int sc_collective_files_load(const struct sc_request *request, struct sc_arena *arena,
			     struct sc_fabric *fabric, struct sc_err *err);
/* Warns, after costs were asked, of files that did not run, or not always, and why. */
void sc_collective_files_warn(const struct sc_fabric *fabric, struct sc_warnings *warnings);
