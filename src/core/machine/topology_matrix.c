/* Matrices of links as tools print them:
 *
 *   nvidia-smi topo -m    a head "GPU0 GPU1 ... NIC0 ... CPU Affinity ...", rows "GPU0 X NV12 ...
 * SYS ...": NV<n> bonded NVLinks; PIX, PXB one or several PCIe switches between, PHB and NODE a
 * CPU, SYS two rocm-smi --showtopo   several such tables with heads "GPU0 GPU1 ..."; that of link
 * types has XGMI and PCIE
 *
 * Whether NVLinks go to a switch does not stand there: when all pairs have as many, and those are
 * more than a GPU has for all its peers, they do. Colours are passed over; a legend is not read. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "core/machine/topology_priv.h"

enum { MAX_NAMES = SC_TOPO_MAX_GPUS + 128, MAX_WORD = 16, MAX_LINKS = 32 };
/* A PCIe link of a GPU or NIC, and between CPUs: what NCCL takes for generation 4 and AMD
 * (src/graph/topo.h). */
static const double PCIE_GBPS = 24, CPUS_GBPS = 16, NIC_GBIT_S = 200;

/* In the order of CELLS, whose last, PCIE, says nothing of the way. */
enum cell { CELL_SELF, CELL_NVLINK, CELL_PIX, CELL_PXB, CELL_PHB, CELL_NODE, CELL_SYS, CELL_XGMI };
static const char *const CELLS[] = {"X",    "NV",  "PIX",  "PXB",  "PHB",
				    "NODE", "SYS", "XGMI", "PCIE", NULL};

struct matrix {
	const struct sc_source *source;
	struct sc_err *err;
	const char *at;
	unsigned line;
	char word[MAX_NAMES][MAX_WORD];
	int n_words;
	bool is_nic[MAX_NAMES];
	int n; /* columns of the head */
	unsigned char cell[MAX_NAMES][MAX_NAMES], links[MAX_NAMES][MAX_NAMES];
	bool has_row[MAX_NAMES];
};

static int matrix_fail(const struct matrix *m, int column, const char *text)
{
	return sc_err_at(m->err, SC_EFORMAT, m->source->file, m->line ? m->line : 1, 0,
			 column >= 0 ? "%s: \"%s\"" : "%s", text,
			 column >= 0 ? m->word[column] : "");
}

/* The words of a line, without escapes (ESC [ ... letter); longer ones are cut. */
static bool next_line(struct matrix *m)
{
	const char *end = m->source->text + m->source->n, *p = m->at;
	size_t n = 0;
	bool escape = false;

	m->n_words = 0;
	if (p >= end)
		return false;
	m->line++;
	for (;; p++) {
		bool over = p == end || *p == '\n';

		if (!over && *p == '\033') {
			escape = true;
		} else if (!over && escape) {
			escape = !isalpha((unsigned char)*p);
		} else if (!over && !isspace((unsigned char)*p)) {
			if (m->n_words < MAX_NAMES && n + 1 < MAX_WORD)
				m->word[m->n_words][n++] = *p;
		} else if (n > 0) {
			m->word[m->n_words++][n] = '\0';
			n = 0;
		}
		if (over)
			break;
	}
	m->at = p + 1;
	return true;
}

/* "GPU12", "NIC0", "mlx5_0"; *number: of a GPU. */
static bool is_gpu(const char *word, int64_t *number)
{
	return strncmp(word, "GPU", 3) == 0 && sc_parse_int(word + 3, number) && *number >= 0 &&
	       *number < MAX_NAMES;
}

static bool is_nic(const char *word)
{
	if (strchr(word, ':')) /* of the legend */
		return false;
	return (strncmp(word, "NIC", 3) == 0 && isdigit((unsigned char)word[3])) ||
	       strncmp(word, "mlx", 3) == 0 || strncmp(word, "bnxt", 4) == 0 ||
	       strncmp(word, "rdma", 4) == 0;
}

/* "GPU0 GPU1 ... NIC0 ... CPU Affinity": of the head, only names count. */
static bool read_head(struct matrix *m)
{
	int64_t number;
	int n = 0;

	while (n < m->n_words &&
	       ((is_gpu(m->word[n], &number) && number == n) || is_nic(m->word[n])))
		n++;
	if (n == 0 || is_nic(m->word[0]) || (n < m->n_words && strcmp(m->word[n], "CPU") != 0))
		return false;
	for (int i = 0; i < n; i++)
		m->is_nic[i] = is_nic(m->word[i]);
	m->n = n;
	return true;
}

static int read_cell(struct matrix *m, int row, int column)
{
	const char *word = m->word[column + 1];
	int64_t links = 0;

	if (strcmp(word, "0") == 0 && row == column) /* rocm-smi's diagonal */
		word = "X";
	for (unsigned c = 0; CELLS[c]; c++) {
		bool bond = c == CELL_NVLINK && strncmp(word, "NV", 2) == 0 &&
			    sc_parse_int(word + 2, &links) && links >= 1 && links <= MAX_LINKS;

		if (!bond && strcmp(word, CELLS[c]) != 0)
			continue;
		if (c == CELL_NVLINK && !bond)
			break;
		m->cell[row][column] = (unsigned char)c;
		m->links[row][column] = (unsigned char)links;
		return (c == CELL_SELF) == (row == column)
			       ? 0
			       : matrix_fail(m, column + 1,
					     "X stands on the diagonal, and only there");
	}
	return matrix_fail(m, column + 1,
			   "expected X, NV1 to NV32, PIX, PXB, PHB, NODE, SYS, XGMI or PCIE");
}

static int matrix_read_row(struct matrix *m, int row)
{
	int rc = 0;

	if (row < 0 || row >= m->n)
		return matrix_fail(m, 0, "this row is not in the head");
	if (m->n_words < m->n + 1)
		return matrix_fail(m, 0, "fewer cells than the head has names");
	for (int c = 0; c < m->n && rc == 0; c++)
		rc = read_cell(m, row, c);
	m->has_row[row] = true;
	return rc;
}

/* A table of numbers (weights, hops) of rocm-smi is passed over. */
static bool is_of_numbers(const struct matrix *m)
{
	int64_t number;

	return m->n_words > 2 && sc_parse_int(m->word[1], &number) &&
	       sc_parse_int(m->word[2], &number);
}

static int read_rows(struct matrix *m)
{
	int nics = 0, rc = 0;
	int64_t number;

	while (rc == 0 && next_line(m)) {
		if (m->n_words == 0 || read_head(m))
			continue;
		if (m->n == 0 || m->n_words < 2 || is_of_numbers(m))
			continue;
		if (is_gpu(m->word[0], &number))
			rc = matrix_read_row(m, (int)number);
		else if (is_nic(m->word[0]) && strcmp(m->word[1], "=") != 0) {
			int row = 0;

			while (row < m->n && !m->is_nic[row])
				row++;
			rc = matrix_read_row(m, row + nics++);
		}
	}
	if (rc == 0 && m->n == 0)
		return matrix_fail(m, -1, "no line names GPUs; expected GPU0 GPU1 ...");
	for (int i = 0; rc == 0 && i < m->n; i++)
		if (!m->has_row[i] && !m->is_nic[i])
			return matrix_fail(m, -1, "the table ends before every GPU has its row");
	return rc;
}

/* ---- the graph ---- */

/* All pairs of GPUs have as many links, and more than so many peers could each have apart. */
static bool has_switch(const struct matrix *m, int n_gpus)
{
	enum { MOST_PORTS = 18 }; /* links out of a GPU, NVLink 4 and 5 */
	int links = m->links[0][1];

	for (int a = 0; a < n_gpus; a++)
		for (int b = 0; b < n_gpus; b++)
			if (a != b && (m->cell[a][b] != CELL_NVLINK || m->links[a][b] != links))
				return false;
	return n_gpus > 2 && links * (n_gpus - 1) > MOST_PORTS;
}

/* The first before `i` that is at most `limit` away: it shares what stands between. */
static int first_alike(const struct matrix *m, int i, enum cell limit)
{
	for (int j = 0; j < i; j++)
		if (m->cell[i][j] >= CELL_PIX && m->cell[i][j] <= limit)
			return j;
	return i;
}

/* A PCIe switch for those that PIX joins, a CPU for those that PHB and NODE do, all CPUs joined.
 * What NVLink joins does not say how PCIe does: a switch of its own. */
static void join_pcie(const struct matrix *m, struct sc_topo_builder *b)
{
	int pcie[MAX_NAMES], cpu[MAX_NAMES];

	for (int i = 0; i < m->n; i++) {
		int near = first_alike(m, i, CELL_PXB), node = first_alike(m, i, CELL_NODE);

		cpu[i] = node < i ? cpu[node] : sc_topo_add_node(b, SC_TOPO_CPU);
		for (int j = 0; node == i && j < i; j++)
			if (cpu[j] != cpu[i] && first_alike(m, j, CELL_NODE) == j)
				sc_topo_join(b, cpu[j], cpu[i], CPUS_GBPS, false);
		pcie[i] = near < i ? pcie[near] : sc_topo_add_node(b, SC_TOPO_PCIE);
		if (near == i)
			sc_topo_join(b, pcie[i], cpu[i], PCIE_GBPS, false);
		sc_topo_join(b, i, pcie[i], PCIE_GBPS, false);
		if (sc_topo_is_full(b))
			return;
	}
}

int sc_topo_read_matrix(const struct sc_source *source, struct sc_arena *arena,
			struct sc_topo_builder *b, struct sc_err *err)
{
	struct matrix *m = sc_arena_calloc(arena, 1, sizeof(*m));
	int rc, n_gpus = 0;

	*m = (struct matrix){.source = source, .err = err, .at = source->text};
	rc = read_rows(m);
	if (rc)
		return rc;
	for (int i = 0; i < m->n; i++) {
		int node = sc_topo_add_node(b, m->is_nic[i] ? SC_TOPO_NIC : SC_TOPO_GPU);

		b->nodes.at[node].number = i;
		b->nodes.at[node].gbit_s = m->is_nic[i] ? NIC_GBIT_S : 0;
		n_gpus += !m->is_nic[i];
	}
	if (n_gpus > SC_TOPO_MAX_GPUS)
		return matrix_fail(m, -1, "too many GPUs");
	if (n_gpus > 1) {
		int star = has_switch(m, n_gpus) ? sc_topo_add_node(b, SC_TOPO_NVSWITCH) : -1;

		for (int i = 0; i < n_gpus; i++) {
			if (star >= 0)
				sc_topo_join(b, i, star, m->links[i][i ? 0 : 1] * SC_TOPO_LINK_GBPS,
					     true);
			for (int j = 0; star < 0 && j < n_gpus; j++)
				if (m->cell[i][j] == CELL_NVLINK || m->cell[i][j] == CELL_XGMI)
					SC_VEC_PUSH(
						&b->links,
						((struct sc_topo_link){
							i, j,
							SC_TOPO_LINK_GBPS * fmax(1, m->links[i][j]),
							true}));
		}
	}
	join_pcie(m, b);
	return sc_topo_is_full(b) ? matrix_fail(m, -1, "too many links") : 0;
}
