/* The graph and the search of rings on it. Not known here: trees (their rates are those of the
 * rings), what libraries lose on links. */
#include "core/machine/topology.h"

#include <assert.h>
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "core/machine/topology_priv.h"

/* ---- building ---- */

bool sc_topo_is_full(const struct sc_topo_builder *b)
{
	return b->nodes.n >= SC_TOPO_MAX_NODES || b->links.n + 2 > SC_TOPO_MAX_LINKS;
}

int sc_topo_add_node(struct sc_topo_builder *b, enum sc_topo_kind kind)
{
	SC_VEC_PUSH(&b->nodes, ((struct sc_topo_node){.kind = kind}));
	return (int)b->nodes.n - 1;
}

void sc_topo_join(struct sc_topo_builder *b, int one, int other, double gbps, bool nvlink)
{
	SC_VEC_PUSH(&b->links, ((struct sc_topo_link){one, other, gbps, nvlink}));
	SC_VEC_PUSH(&b->links, ((struct sc_topo_link){other, one, gbps, nvlink}));
}

static void topo_builder_release(struct sc_topo_builder *b)
{
	SC_VEC_RELEASE(&b->nodes);
	SC_VEC_RELEASE(&b->links);
}

/* GPUs first, by their numbers, NICs last. */
static int place_of(const struct sc_topo_node *node)
{
	return node->kind == SC_TOPO_GPU   ? node->number
	       : node->kind == SC_TOPO_NIC ? SC_TOPO_MAX_NUMBER + 2
					   : SC_TOPO_MAX_NUMBER + 1;
}

void sc_topo_take(struct sc_topo_builder *b, struct sc_arena *arena, struct sc_topology *out)
{
	int *now = sc_arena_calloc(arena, b->nodes.n + 1, sizeof(*now));

	*out = (struct sc_topology){.n_nodes = (int)b->nodes.n, .n_links = (int)b->links.n};
	out->nodes = sc_arena_calloc(arena, b->nodes.n + 1, sizeof(*out->nodes));
	out->links = sc_arena_calloc(arena, b->links.n + 1, sizeof(*out->links));
	/* Nodes by their places, those of one place as they came; now[i]: where node i of the
	 * builder went. */
	for (size_t i = 0; i < b->nodes.n; i++) {
		const struct sc_topo_node *node = &b->nodes.at[i];
		int before = 0;

		for (size_t j = 0; j < b->nodes.n; j++) {
			int other = place_of(&b->nodes.at[j]) - place_of(node);

			before += other < 0 || (other == 0 && j < i);
		}
		now[i] = before;
		out->nodes[before] = *node;
		out->n_gpus += node->kind == SC_TOPO_GPU;
		out->n_nics += node->kind == SC_TOPO_NIC;
	}
	for (size_t i = 0; i < b->links.n; i++) {
		out->links[i] = b->links.at[i];
		out->links[i].from = now[b->links.at[i].from];
		out->links[i].to = now[b->links.at[i].to];
	}
	topo_builder_release(b);
}

void sc_topology_cube_mesh(double gbps, struct sc_arena *arena, struct sc_topology *out)
{
	/* nvidia-smi topo -m of a DGX-1V: two squares with diagonals, one link across from each. */
	static const struct {
		unsigned char a, b, links;
	} joins[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
		     {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
		     {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
	struct sc_topo_builder b = {.nodes = {.n = 0}};

	for (int i = 0; i < 8; i++)
		SC_VEC_PUSH(&b.nodes, ((struct sc_topo_node){.kind = SC_TOPO_GPU, .number = i}));
	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++)
		sc_topo_join(&b, joins[i].a, joins[i].b, joins[i].links * gbps, true);
	sc_topo_take(&b, arena, out);
}

/* ---- paths ---- */

/* The links that a hop of a ring may cross: NVLinks and switches; one GPU between, too; all. */
enum reach { REACH_NVLINK, REACH_RELAY, REACH_ALL, N_REACHES };

enum { MAX_PATH = 12, MAX_STEPS = 1000, MAX_RINGS = 64 };
struct path {
	int link[MAX_PATH];
	int n; /* 0: there is none */
};
struct search {
	const struct sc_topology *t;
	int n; /* GPUs */
	struct path path[SC_WIRING_MOST][SC_WIRING_MOST];
	double *left; /* of each link */
	double gbps;  /* of a ring */
	int order[SC_WIRING_MOST];
	int found, most; /* rings: at once now, the most so far */
	int steps;
	double *load; /* of the most, on each link */
};

/* May a path with `first` as its start go on from node `at` over the link? */
static bool may_cross(const struct sc_topology *t, enum reach reach, int first, int relayed,
		      const struct sc_topo_link *link)
{
	bool from_gpu = t->nodes[link->from].kind == SC_TOPO_GPU && link->from != first;

	if (reach != REACH_ALL && !link->nvlink)
		return false;
	if (t->nodes[link->to].kind == SC_TOPO_NIC)
		return false;
	return !from_gpu || (reach == REACH_RELAY && relayed == 0);
}

/* From one node to all others, over the fewest links, of those the widest. */
struct tree {
	int from;
	double wide[SC_TOPO_MAX_NODES];
	int by[SC_TOPO_MAX_NODES]; /* the last link on the way */
	int relays[SC_TOPO_MAX_NODES], length[SC_TOPO_MAX_NODES];
};

/* One round of Bellman-Ford; false: nothing is so many links away. */
static bool tree_grow(const struct sc_topology *t, enum reach reach, int round, struct tree *tree)
{
	bool moved = false;

	for (int l = 0; l < t->n_links; l++) {
		const struct sc_topo_link *link = &t->links[l];
		double w = fmin(tree->wide[link->from], link->gbps);
		int *length = &tree->length[link->to];

		if (tree->length[link->from] != round ||
		    !may_cross(t, reach, tree->from, tree->relays[link->from], link) ||
		    *length < round + 1 || (*length == round + 1 && !(w > tree->wide[link->to])))
			continue;
		*length = round + 1;
		tree->wide[link->to] = w;
		tree->by[link->to] = l;
		tree->relays[link->to] =
			tree->relays[link->from] +
			(link->from != tree->from && t->nodes[link->from].kind == SC_TOPO_GPU);
		moved = true;
	}
	return moved;
}

static void find_paths(const struct sc_topology *t, enum reach reach, int from, struct tree *out)
{
	assert(t->n_nodes <= SC_TOPO_MAX_NODES);
	out->from = from;
	for (int i = 0; i < t->n_nodes; i++) {
		out->length[i] = INT32_MAX;
		out->wide[i] = 0;
		out->by[i] = -1;
		out->relays[i] = 0;
	}
	out->length[from] = 0;
	out->wide[from] = DBL_MAX;
	for (int round = 0; round < MAX_PATH && tree_grow(t, reach, round, out); round++)
		;
}

static void path_to(const struct sc_topology *t, const struct tree *tree, int to, struct path *out)
{
	out->n = 0;
	if (tree->length[to] > MAX_PATH)
		return;
	for (int at = to; at != tree->from; at = t->links[tree->by[at]].from)
		out->link[out->n++] = tree->by[at];
}

/* ---- rings ---- */

/* Takes the rate off a path's links, or gives it back; false: one has too little, none is taken. */
static bool path_take(struct search *s, const struct path *path, double gbps)
{
	if (path->n == 0)
		return false;
	for (int i = 0; i < path->n; i++) {
		if (s->left[path->link[i]] < gbps * (1 - 1e-9)) {
			while (i-- > 0)
				s->left[path->link[i]] += gbps;
			return false;
		}
		s->left[path->link[i]] -= gbps;
	}
	return true;
}

static void path_release(struct search *s, const struct path *path)
{
	for (int i = 0; i < path->n; i++)
		s->left[path->link[i]] += s->gbps;
}

/* The ring in s->order the other way round. */
static bool take_back(struct search *s)
{
	int i = 0;

	while (i < s->n && path_take(s, &s->path[s->order[(i + 1) % s->n]][s->order[i]], s->gbps))
		i++;
	if (i == s->n)
		return true;
	while (i-- > 0)
		path_release(s, &s->path[s->order[(i + 1) % s->n]][s->order[i]]);
	return false;
}

static void search_ring(struct search *s, int at, unsigned visited);

/* The ring is closed: counts it, and its way back, and looks for others beside it. */
static void close_ring(struct search *s)
{
	int order[SC_WIRING_MOST];
	bool both = s->n > 2 && take_back(s);

	memcpy(order, s->order, sizeof(order));
	s->found += both ? 2 : 1;
	if (s->found > s->most) {
		s->most = s->found;
		for (int l = 0; l < s->t->n_links; l++)
			s->load[l] = s->t->links[l].gbps - s->left[l];
	}
	if (s->most < MAX_RINGS)
		search_ring(s, 0, 1);
	memcpy(s->order, order, sizeof(order));
	s->found -= both ? 2 : 1;
	for (int i = 0; both && i < s->n; i++)
		path_release(s, &s->path[order[(i + 1) % s->n]][order[i]]);
}

/* Rings from order[0..at] on, depth first, until as many run at once as can, or it took long. */
static void search_ring(struct search *s, int at, unsigned visited)
{
	if (at + 1 == s->n) {
		const struct path *back = &s->path[s->order[at]][0];

		if (!path_take(s, back, s->gbps))
			return;
		close_ring(s);
		path_release(s, back);
		return;
	}
	for (int i = 1; i < s->n && s->most < MAX_RINGS; i++) {
		const struct path *path = &s->path[s->order[at]][i];

		if (visited >> i & 1 || ++s->steps > MAX_STEPS || !path_take(s, path, s->gbps))
			continue;
		s->order[at + 1] = i;
		search_ring(s, at + 1, visited | 1u << i);
		path_release(s, path);
	}
}

static int count_rings(struct search *s, double gbps)
{
	for (int l = 0; l < s->t->n_links; l++)
		s->left[l] = s->t->links[l].gbps;
	s->gbps = gbps;
	s->steps = s->found = s->most = s->order[0] = 0;
	search_ring(s, 0, 1);
	return s->most;
}

/* Rates that are tried: of the widest path between two GPUs, whole and in parts, as NCCL steps down
 * its list of speeds; the most in all wins, of equals the fewest rings. */
static void search_reach(struct search *s, bool pcie, struct sc_topo_rings *best, double *load)
{
	static const double parts[] = {1, 2, 3, 4, 8, 16};
	double unit = 0;

	for (int a = 0; a < s->n; a++)
		for (int b = 0; b < s->n; b++)
			for (int i = 0; a != b && i < s->path[a][b].n; i++) {
				const struct sc_topo_link *link =
					&s->t->links[s->path[a][b].link[i]];

				/* a ring is no faster than what it crosses beside NVLinks */
				if (!pcie || !link->nvlink)
					unit = fmax(unit, link->gbps);
			}
	for (size_t i = 0; unit > 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		int n = count_rings(s, unit / parts[i]);

		if (n * unit / parts[i] <= best->n * best->gbps * 1.0001)
			continue;
		*best = (struct sc_topo_rings){n, unit / parts[i], pcie};
		if (load)
			memcpy(load, s->load, (size_t)s->t->n_links * sizeof(*load));
	}
}

struct sc_topo_rings sc_topology_rings(const struct sc_topology *t, const int *gpus, int n,
				       double *load)
{
	struct sc_topo_rings best = {0};
	struct search *s;

	assert(n >= 2 && n <= SC_WIRING_MOST);
	s = sc_xcalloc(1, sizeof(*s));
	s->t = t;
	s->n = n;
	s->left = sc_xcalloc((size_t)t->n_links + 1, sizeof(*s->left));
	s->load = sc_xcalloc((size_t)t->n_links + 1, sizeof(*s->load));
	for (int reach = 0; reach < N_REACHES && best.n == 0; reach++) {
		for (int a = 0; a < n; a++) {
			struct tree tree;

			find_paths(t, (enum reach)reach, gpus[a], &tree);
			for (int b = 0; b < n; b++)
				path_to(t, &tree, gpus[b], &s->path[a][b]);
		}
		search_reach(s, reach == REACH_ALL, &best, load);
	}
	free(s->left);
	free(s->load);
	free(s);
	return best;
}

/* The rate that is used of a link, 1e9 bytes/s. */
static double used_of(const double *const *loads, size_t n, const double *share, int link)
{
	double used = 0;

	for (size_t i = 0; i < n; i++)
		used += share[i] * loads[i][link];
	return used;
}

/* How far all that still grow can go until a link is full: they have `share` of their rates. */
static double growth(const struct sc_topology *t, const double *const *loads, size_t n,
		     const double *share, const bool *frozen)
{
	double most = 1;

	for (size_t i = 0; i < n; i++)
		most = frozen[i] ? most : fmin(most, 1 - share[i]);
	for (int l = 0; l < t->n_links; l++) {
		double wanted = 0;

		for (size_t i = 0; i < n; i++)
			wanted += frozen[i] ? 0 : loads[i][l];
		if (wanted > 0)
			most = fmin(most, fmax(0, t->links[l].gbps - used_of(loads, n, share, l)) /
						  wanted);
	}
	return most;
}

void sc_topology_share(const struct sc_topology *t, const double *const *loads, size_t n,
		       double *share)
{
	bool *frozen = sc_xcalloc(n + 1, sizeof(*frozen));
	size_t left = n;

	for (size_t i = 0; i < n; i++)
		share[i] = 0;
	while (left > 0) {
		double more = growth(t, loads, n, share, frozen);

		for (size_t i = 0; i < n; i++)
			share[i] += frozen[i] ? 0 : more;
		for (size_t i = 0; i < n; i++) {
			bool stops = share[i] >= 1 - 1e-9;

			for (int l = 0; l < t->n_links && !stops; l++)
				stops = loads[i][l] > 0 && used_of(loads, n, share, l) >=
								   t->links[l].gbps * (1 - 1e-9);
			left -= stops && !frozen[i];
			frozen[i] |= stops;
		}
	}
	free(frozen);
}

/* ---- files ---- */

int sc_topology_parse(const struct sc_source *source, struct sc_arena *arena,
		      struct sc_topology *out, struct sc_err *err)
{
	struct sc_topo_builder b = {.nodes = {.n = 0}};
	size_t at = 0;
	int rc;

	while (at < source->n && isspace((unsigned char)source->text[at]))
		at++;
	rc = at < source->n && source->text[at] == '<'
		     ? sc_topo_read_xml(source, arena, &b, err)
		     : sc_topo_read_matrix(source, arena, &b, err);
	if (rc == 0)
		sc_topo_take(&b, arena, out);
	topo_builder_release(&b);
	return rc;
}

/* ---- ports ---- */

double sc_topology_port_gbps(const struct sc_topology *t)
{
	double most = 0;

	for (int g = 0; g < t->n_gpus; g++) {
		double gbps = 0;

		for (int l = 0; l < t->n_links; l++)
			if (t->links[l].from == g && t->links[l].nvlink)
				gbps += t->links[l].gbps;
		most = fmax(most, gbps);
	}
	return most;
}

static void nearest_gpu(const struct sc_topology *t, int nic, struct path *out)
{
	struct tree tree;

	find_paths(t, REACH_ALL, nic, &tree);
	out->n = 0;
	for (int g = 0; g < t->n_gpus; g++) {
		struct path path;

		path_to(t, &tree, g, &path);
		if (path.n > 0 && (out->n == 0 || path.n < out->n))
			*out = path;
	}
}

/* Between a NIC and its nearest GPU, at most its own rate, 1e9 bytes/s: the least of all NICs,
 * which send at once and share the links of their ways. 0 without NICs. */
static double nic_gbps(const struct sc_topology *t)
{
	int first = t->n_nodes - t->n_nics, *users;
	double least = DBL_MAX;
	struct path *paths;

	if (t->n_nics == 0)
		return 0;
	users = sc_xcalloc((size_t)t->n_links + 1, sizeof(*users));
	paths = sc_xcalloc((size_t)t->n_nics, sizeof(*paths));
	for (int i = 0; i < t->n_nics; i++) {
		nearest_gpu(t, first + i, &paths[i]);
		for (int j = 0; j < paths[i].n; j++)
			users[paths[i].link[j]]++;
	}
	for (int i = 0; i < t->n_nics; i++) {
		least = fmin(least, sc_gbit_to_gbps(t->nodes[first + i].gbit_s));
		for (int j = 0; j < paths[i].n; j++) {
			int l = paths[i].link[j];

			least = fmin(least, t->links[l].gbps / users[l]);
		}
	}
	free(paths);
	free(users);
	return least;
}

/* How many GPUs the one with the fewest has NVLinks to; *alike: all of these have one rate. */
static int count_neighbours(const struct sc_topology *t, bool *alike)
{
	int least = t->n_gpus;
	double gbps = 0;

	*alike = true;
	for (int g = 0; g < t->n_gpus; g++) {
		int n = 0;

		for (int l = 0; l < t->n_links; l++) {
			if (t->links[l].from != g || !t->links[l].nvlink)
				continue;
			*alike &= n + g == 0 || fabs(t->links[l].gbps - gbps) < 1e-6 * gbps;
			gbps = t->links[l].gbps;
			n++;
		}
		least = n < least ? n : least;
	}
	return least;
}

/* All but what rings reach; returns the rate out of a GPU. */
static double wiring_begin(const struct sc_topology *t, struct sc_wiring *out)
{
	const double port = sc_topology_port_gbps(t);

	*out = (struct sc_wiring){.graph = t, .n_gpus = t->n_gpus, .n_nics = t->n_nics};
	out->neighbours = count_neighbours(t, &out->is_mesh);
	out->is_mesh &= out->neighbours == t->n_gpus - 1;
	for (int i = 0; i < t->n_nodes; i++)
		out->has_switch |= t->nodes[i].kind == SC_TOPO_NVSWITCH;
	out->port_links = port / SC_TOPO_LINK_GBPS;
	out->nic_gbit_s = nic_gbps(t) * (1 / sc_gbit_to_gbps(1));
	for (int i = t->n_nodes - t->n_nics; i < t->n_nodes; i++)
		out->nic_latency_us = fmax(out->nic_latency_us, t->nodes[i].latency_us);
	return port;
}

void sc_wiring_of(const struct sc_topology *t, struct sc_wiring *out)
{
	const double port = wiring_begin(t, out);
	int gpus[SC_WIRING_MOST];

	for (int n = 1; n <= SC_WIRING_MOST; n++) {
		struct sc_topo_rings rings;

		gpus[n - 1] = n - 1;
		if (n < 2 || n > t->n_gpus)
			continue;
		rings = sc_topology_rings(t, gpus, n, NULL);
		if (rings.pcie)
			out->pcie_gbps[n] = rings.n * rings.gbps;
		else if (port > 0)
			out->share[n] = rings.n * rings.gbps / port;
	}
}

void sc_wiring_of_cube_mesh(double gbps, struct sc_arena *arena, struct sc_wiring *out)
{
	/* The search takes longer than a prediction: these are its rings, at a link's rate each. */
	static const int rings[] = {[2] = 1, [3] = 2, [4] = 4, [5] = 2, [6] = 2, [7] = 4, [8] = 6};
	struct sc_topology *t = sc_arena_calloc(arena, 1, sizeof(*t));
	double port;

	sc_topology_cube_mesh(gbps, arena, t);
	port = wiring_begin(t, out);
	for (int n = 2; n <= t->n_gpus; n++)
		out->share[n] = rings[n] * gbps / port;
}
