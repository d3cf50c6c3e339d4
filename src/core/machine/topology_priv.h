/* Inside of topologies: how readers of files build one. */
#pragma once

#include "base/vec.h"
#include "core/machine/topology.h"

/* Nodes and links in any order; `take` puts GPUs first and NICs last, and releases it. */
struct sc_topo_builder {
	SC_VEC(struct sc_topo_node) nodes;
	SC_VEC(struct sc_topo_link) links;
};
int sc_topo_add_node(struct sc_topo_builder *b, enum sc_topo_kind kind);
/* Both directions, or one. */
void sc_topo_join(struct sc_topo_builder *b, int one, int other, double gbps, bool nvlink);
void sc_topo_take(struct sc_topo_builder *b, struct sc_arena *arena, struct sc_topology *out);
bool sc_topo_is_full(const struct sc_topo_builder *b);

int sc_topo_read_xml(const struct sc_source *source, struct sc_arena *arena,
		     struct sc_topo_builder *b, struct sc_err *err);
int sc_topo_read_matrix(const struct sc_source *source, struct sc_arena *arena,
			struct sc_topo_builder *b, struct sc_err *err);
