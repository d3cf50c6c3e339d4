/* A cache of names by their raw bytes, so that decoding, classifying and interning happen once for
 * a name that comes again and again. One slot a hash: memory is bounded whatever the file. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "trace/import/import_priv.h"

/* The hash is of the length and 24 bytes: ends and middle of a kernel's name tell most apart. */
static uint32_t hash_name(const char *at, size_t n)
{
	uint64_t first = 0, middle = 0, last = 0;

	if (n >= 8) {
		memcpy(&first, at, 8);
		memcpy(&middle, at + n / 2 - 4, 8);
		memcpy(&last, at + n - 8, 8);
	} else {
		memcpy(&first, at, n);
	}
	first = (first ^ n) * 0x9E3779B97F4A7C15u;
	first = (first ^ middle ^ first >> 29) * 0xBF58476D1CE4E5B9u;
	first = (first ^ last ^ first >> 31) * 0x94D049BB133111EBu;
	return (uint32_t)(first >> 40);
}

void sc_import_names_release(struct sc_import_names *names)
{
	for (size_t i = 0; names->slots && i < SC_IMPORT_NAME_SLOTS; i++)
		free(names->slots[i].raw);
	free(names->slots);
	sc_strbuf_release(&names->text);
	*names = (struct sc_import_names){.writer = NULL};
}

static uint8_t copy_kind(const char *text)
{
	static const struct {
		const char *text;
		uint8_t kind;
	} kinds[] = {
		{"HtoD", SC_COPY_H2D}, {"DtoH", SC_COPY_D2H}, {"DtoD", SC_COPY_D2D},
		{"PtoP", SC_COPY_P2P}, {"HtoH", SC_COPY_H2H},
	};

	for (size_t i = 0; sc_begins_with(text, "Mem") && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strstr(text, kinds[i].text))
			return kinds[i].kind;
	return SC_COPY_UNKNOWN;
}

static uint32_t flags_of_name(const char *text)
{
	uint32_t flags = 0;

	if (sc_is_comm_kernel(text, NULL))
		flags |= SC_NAME_COMM;
	if (sc_is_nccl_kernel(text))
		flags |= SC_NAME_NCCL;
	if (sc_begins_with(text, "ProfilerStep"))
		flags |= SC_NAME_STEP;
	if (sc_begins_with(text, "Optimizer.") || sc_begins_with(text, "enumerate(DataLoader)"))
		flags |= SC_NAME_OPTIMIZER;
	/* A process group's backend before the colon, as c10d writes it. */
	if (sc_begins_with(text, "nccl:") || sc_begins_with(text, "gloo:") ||
	    sc_begins_with(text, "ucc:") || sc_begins_with(text, "mpi:") ||
	    sc_begins_with(text, "xccl:"))
		flags |= SC_NAME_CALL;
	if (strcmp(text, "record_param_comms") == 0)
		flags |= SC_NAME_PARAM_COMMS;
	if (strcmp(text, "[memory]") == 0)
		flags |= SC_NAME_MEMORY;
	return flags;
}

/* The slot where these bytes are kept; *is_new: they were not, and the rest is to be filled in. */
static struct sc_import_name *name_slot(struct sc_import_names *names, const char *at, size_t n,
					bool *is_new)
{
	struct sc_import_name *slot;

	if (!names->slots)
		names->slots = sc_xcalloc(SC_IMPORT_NAME_SLOTS, sizeof(*names->slots));
	slot = &names->slots[hash_name(at, n) % SC_IMPORT_NAME_SLOTS];
	*is_new = !slot->raw || slot->n != n || memcmp(slot->raw, at, n) != 0;
	if (*is_new) {
		if (!slot->raw || slot->n < n)
			slot->raw = sc_xrealloc(slot->raw, n + 1, 1);
		memcpy(slot->raw, at, n);
		slot->n = n;
	}
	return slot;
}

const struct sc_import_name *sc_import_name(struct sc_import_names *names, const char *at, size_t n)
{
	struct sc_import_name *name = &names->large;
	bool is_new = true;

	if (n <= SC_IMPORT_NAME_MAX)
		name = name_slot(names, at, n, &is_new);
	if (is_new) {
		sc_strbuf_clear(&names->text);
		name->n_repaired = (uint32_t)sc_json_decode(at, n, &names->text).n_bad;
		name->id = sc_trace_writer_string(names->writer, sc_strbuf_get(&names->text),
						  names->text.n);
		name->flags = flags_of_name(sc_strbuf_get(&names->text));
		name->copy_kind = copy_kind(sc_strbuf_get(&names->text));
	}
	return name;
}

/* Appends a list without its spaces; of a list of texts, these without quotes. */
static void pack_list(const struct sc_scan_value *list, bool texts, struct sc_strbuf *out)
{
	const char *at = list->n ? list->at : "", *end = at + list->n;
	bool quoted = false;

	if (texts && list->n >= 2) {
		at++;
		end--;
	}
	for (; at < end; at++)
		if (texts && (*at == '"' || *at == '\''))
			quoted = !quoted;
		else if (quoted || !strchr(" \n\t\r", *at))
			sc_strbuf_append_char(out, *at);
}

uint32_t sc_import_shapes(struct sc_import_names *names, const struct sc_scan_value *dims,
			  const struct sc_scan_value *types)
{
	enum { MAX_SHAPES = SC_IMPORT_NAME_MAX / 2 };
	struct sc_import_name *slot;
	char raw[SC_IMPORT_NAME_MAX];
	bool is_new;
	size_t n;

	if (dims->n + types->n == 0 || dims->n > MAX_SHAPES || types->n >= MAX_SHAPES)
		return 0;
	/* Cached by what both lists are in the file; '\1' keeps them apart from names. */
	if (dims->n)
		memcpy(raw, dims->at, dims->n);
	n = dims->n;
	raw[n++] = '\1';
	if (types->n)
		memcpy(raw + n, types->at, types->n);
	n += types->n;
	slot = name_slot(names, raw, n, &is_new);
	if (!is_new)
		return slot->id;
	sc_strbuf_clear(&names->text);
	pack_list(dims, false, &names->text);
	sc_strbuf_append_char(&names->text, '|');
	pack_list(types, true, &names->text);
	slot->id =
		sc_trace_writer_string(names->writer, sc_strbuf_get(&names->text), names->text.n);
	slot->flags = slot->n_repaired = 0;
	return slot->id;
}
