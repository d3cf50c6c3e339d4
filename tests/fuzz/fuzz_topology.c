/* sc_cluster_parse_topology on any bytes, as a graph and as YAML (an empty one has no line to
 * name); rings of what it accepts stay within the ports. */
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "fuzz.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void parse(const uint8_t *data, size_t size, const char *file)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_cluster cluster = {.gpu = NULL};
	struct sc_arena arena;

	sc_arena_init(&arena, 1024);
	if (sc_cluster_parse_topology(&(struct sc_source){(const char *)data, size, file}, &arena,
				      &cluster, &err))
		expect(err.code != SC_OK && err.text[0] &&
		       (err.line > 0 || strcmp(file, "fuzz.txt")));
	else if (cluster.wiring)
		for (int n = 2; n <= SC_WIRING_MOST; n++)
			expect(sc_wiring_share(cluster.wiring, n) >= 0 &&
			       sc_wiring_share(cluster.wiring, n) <= 1 + 1e-9);
	sc_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	parse(data, size, "fuzz.txt");
	parse(data, size, "fuzz.yaml");
	return 0;
}
