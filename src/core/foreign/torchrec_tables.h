/* Embedding tables as TorchRec lists them: EmbeddingBagConfig(name=..., num_embeddings=..., ...), the same as JSON,
 * or as CSV with these names as its header. */
#ifndef SC_CORE_TORCHREC_TABLES_H
#define SC_CORE_TORCHREC_TABLES_H

#include "core/foreign/foreign.h"

int sc_torchrec_take(struct sc_foreign_lines *lines, const struct sc_source *text, bool is_csv,
		     struct sc_err *err);

#endif
