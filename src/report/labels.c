/* Names of what a prediction is made of. */
#include "report/parts.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"

#define DUST_FRAC 1e-9 /* of the iteration */

const char *const sc_owner_labels[] = {
	[SC_OWN_COMPUTE] = "compute",
	[SC_OWN_MEMORY] = "memory bound",
	[SC_OWN_COMM] = "exposed communication",
	[SC_OWN_BUBBLE] = "pipeline bubble",
	[SC_OWN_HOST] = "host",
	[SC_OWN_PEER] = "waiting for a peer",
	[SC_OWN_OPTIMIZER] = "optimizer",
	[SC_OWN_OTHER] = "other",
};

const char *const sc_reason_names[] = {
	[SC_BY_NONE] = "start",    [SC_BY_LANE] = "lane", [SC_BY_DEP] = "dependency",
	[SC_BY_LAUNCH] = "launch", [SC_BY_PEER] = "peer", [SC_BY_RESOURCE] = "resource",
};

const char *const sc_node_kind_names[] = {
	[SC_NODE_HOST] = "host", [SC_NODE_LAUNCH] = "launch", [SC_NODE_KERNEL] = "kernel",
	[SC_NODE_COPY] = "copy", [SC_NODE_MEMBER] = "comm",   [SC_NODE_EVENT] = "event",
	[SC_NODE_SYNC] = "sync", [SC_NODE_MARK] = "mark",
};

const char *const sc_lane_kind_names[] = {
	[SC_LANE_HOST] = "host", [SC_LANE_COMPUTE] = "compute", [SC_LANE_COMM] = "communication",
	[SC_LANE_COPY] = "copy", [SC_LANE_NIC] = "network",
};

double sc_without_dust(double ms, double iteration_ms)
{
	return fabs(ms) < DUST_FRAC * iteration_ms ? 0 : ms;
}

void sc_text_grouped(double number, struct sc_strbuf *out)
{
	char digits[40];
	int n;

	if (!(number >= 1000)) {
		sc_strbuf_printf(out, "%.4g", number);
		return;
	}
	n = snprintf(digits, sizeof(digits), "%.0f", number);
	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			sc_strbuf_append_char(out, ',');
		sc_strbuf_append_char(out, digits[i]);
	}
}

void sc_text_known(double value, int width, int n_digits, struct sc_strbuf *out)
{
	if (isfinite(value))
		sc_strbuf_printf(out, " %*.*f", width, n_digits, value);
	else
		sc_strbuf_printf(out, " %*s", width, "-");
}

struct sc_time_unit sc_time_unit_of(double ms)
{
	static const struct {
		struct sc_time_unit unit;
		double below; /* of the unit */
	} UNITS[] = {{{"us", 1 / SC_US_PER_MS}, 1000}, {{"ms", 1}, 1e4},
		     {{"s", SC_MS_PER_S}, 600},        {{"min", 60 * SC_MS_PER_S}, 120},
		     {{"h", SC_MS_PER_HOUR}, 48},      {{"days", 24 * SC_MS_PER_HOUR}, 0}};
	size_t i = 0;

	while (i + 1 < sizeof(UNITS) / sizeof(UNITS[0]) && ms >= UNITS[i].below * UNITS[i].unit.ms)
		i++;
	return UNITS[i].unit;
}

void sc_text_ms(double ms, struct sc_strbuf *out)
{
	const struct sc_time_unit unit = sc_time_unit_of(ms);

	sc_text_grouped(ms / unit.ms, out);
	sc_strbuf_printf(out, " %s", unit.name);
}

void sc_text_bytes(double bytes, struct sc_strbuf *out)
{
	if (bytes >= SC_BYTES_PER_GIB)
		sc_strbuf_printf(out, "%.4g GiB", bytes / SC_BYTES_PER_GIB);
	else if (bytes >= SC_BYTES_PER_MIB)
		sc_strbuf_printf(out, "%.4g MiB", bytes / SC_BYTES_PER_MIB);
	else
		sc_strbuf_printf(out, "%.4g KiB", bytes / SC_BYTES_PER_KIB);
}

/* A kernel's name without its result, namespaces and parameters; what is said of hosts is whole. */
static void shorten_symbol(const char *name, size_t n, struct sc_strbuf *out)
{
	const char *const end = name + n;
	int depth = 0;

	if (strncmp(name, "host work", 9) == 0) {
		sc_strbuf_append_n(out, name, n);
		return;
	}
	name += strncmp(name, "void ", 5) == 0 ? 5 : 0;
	while (name < end &&
	       (*name != '(' || depth || sc_strbuf_get(out)[out->n ? out->n - 1 : 0] == ' ' ||
		strncmp(name, "(anonymous", 10) == 0)) {
		const size_t word =
			strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_");

		if (strncmp(name, "(anonymous namespace)::", 23) == 0 ||
		    (word && strncmp(name + word, "::", 2) == 0)) {
			name += (word ? word : 21) + 2;
			continue;
		}
		depth += (*name == '<') - (*name == '>');
		sc_strbuf_append_n(out, name, word ? word : 1);
		name += word ? word : 1;
	}
}

/* The place in the text at which the name ends and " of rank 3" begins. */
static const char *owner_of(const char *what)
{
	const char *of = what + strlen(what);

	for (const char *at = strstr(what, " of "); at; at = strstr(at + 1, " of "))
		of = at;
	return of;
}

void sc_text_symbol(const char *what, size_t most, struct sc_strbuf *out)
{
	enum { SHOWN_APART = 24 };
	const char *of = owner_of(what);
	const size_t width = most - strlen(of) % most;
	struct sc_strbuf text = {0};

	shorten_symbol(what, (size_t)(of - what), &text);
	if (text.n <= width)
		sc_strbuf_printf(out, "  %s%-*s", sc_strbuf_get(&text), (int)(most - text.n), of);
	else
		sc_strbuf_printf(out, "  %.*s...%s%s", (int)width - SHOWN_APART - 3, text.at,
				 text.at + text.n - SHOWN_APART, of);
	sc_strbuf_release(&text);
}

/* A line of more than `room` characters breaks before a column of its right half, or at a blank. */
static size_t fold_at(const char *line, size_t room, size_t width)
{
	size_t indent = strspn(line, " "), at = room;

	for (size_t i = room; i > width / 2; i--)
		if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ')
			return i;
	while (at > indent && line[at] != ' ')
		at--;
	return at > indent ? at : indent + strcspn(line + indent, " \n");
}

void sc_text_fold(const char *text, size_t width, struct sc_strbuf *out)
{
	for (size_t left; *text; text += left + (text[left] == '\n')) {
		size_t under = 4, room = width, n;

		left = strcspn(text, "\n");
		for (size_t i = 2; i < left && i < width / 2; i++)
			if (text[i] != ' ' && text[i - 1] == ' ' && text[i - 2] == ' ')
				under = i;
		for (; left > room && (n = fold_at(text, room, width)) < left;
		     room = width - under) {
			size_t end = n;

			if (n > width / 2 &&
			    text[n] != ' ') /* a column, as far left as it can be */
				under = 4;
			while (end > 0 && text[end - 1] == ' ')
				end--;
			sc_strbuf_append_n(out, text, end);
			n += strspn(text + n, " ");
			text += n;
			left -= n;
			sc_strbuf_printf(out, "\n%*s", left ? (int)under : 0, "");
		}
		sc_strbuf_append_n(out, text, left + (text[left] == '\n'));
	}
}

void sc_json_cell(struct sc_json *json, json_t *parent, const char *name, const char *cell)
{
	int64_t whole;
	double real;

	if (strcmp(cell, "true") == 0 || strcmp(cell, "false") == 0)
		sc_json_bool(json, parent, name, *cell == 't');
	else if (sc_parse_int(cell, &whole))
		sc_json_int(json, parent, name, whole);
	else if (sc_parse_double(cell, &real))
		sc_json_real(json, parent, name, real);
	else
		sc_json_text(json, parent, name, cell);
}

const struct sc_memory_part sc_memory_parts[SC_N_MEMORY_PARTS] = {
	{"weights", offsetof(struct sc_memory, weights_gib)},
	{"gradients", offsetof(struct sc_memory, gradients_gib)},
	{"optimizer", offsetof(struct sc_memory, optimizer_gib)},
	{"activations", offsetof(struct sc_memory, activations_gib)},
	{"buffers", offsetof(struct sc_memory, buffers_gib)},
	{"reserve", offsetof(struct sc_memory, reserve_gib)},
};

double sc_memory_part_gib(const struct sc_memory *memory, size_t part)
{
	const void *at = (const unsigned char *)memory + sc_memory_parts[part].offset;

	return *(const double *)at;
}
