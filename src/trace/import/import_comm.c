/* The part of collective calls that importers share. */
#include <string.h>

#include "trace/import/import_priv.h"

#include <strings.h>

/* Torch, c10d and Python write one type with and without a capital, and c10 its namespace. */
int sc_import_dtype_bytes(const char *at, size_t n)
{
	static const struct {
		const char *text;
		int n_bytes;
	} dtypes[] = {
		{"Float", 4},         {"Float32", 4},       {"BFloat16", 2},    {"Half", 2},
		{"Float16", 2},       {"Double", 8},        {"Long", 8},        {"long int", 8},
		{"Int", 4},           {"Short", 2},         {"short int", 2},   {"Byte", 1},
		{"Char", 1},          {"unsigned char", 1}, {"signed char", 1}, {"Bool", 1},
		{"Float8_e4m3fn", 1}, {"Float8_e5m2", 1},
	};
	const size_t n_space = n > 5 && memcmp(at, "c10::", 5) == 0 ? 5 : 0;

	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (strlen(dtypes[i].text) == n - n_space &&
		    strncasecmp(dtypes[i].text, at + n_space, n - n_space) == 0)
			return dtypes[i].n_bytes;
	return 0;
}

void sc_import_comm_bytes(struct sc_trace_comm *comm, int dtype_bytes)
{
	int64_t elems = comm->in_elems > comm->out_elems ? comm->in_elems : comm->out_elems;

	if (comm->bytes < 0 && dtype_bytes > 0 && elems >= 0 && elems <= INT64_MAX / dtype_bytes)
		comm->bytes = elems * dtype_bytes;
}

void sc_import_comm_fill(struct sc_trace_comm *to, const struct sc_trace_comm *from)
{
#define FILL(member, is_said) to->member = (is_said) ? to->member : from->member
	FILL(collective, to->collective);
	FILL(dtype, to->dtype);
	FILL(group_name, to->group_name);
	FILL(group_ranks, to->group_ranks);
	FILL(comm_hash, to->comm_hash);
	FILL(in_elems, to->in_elems >= 0);
	FILL(out_elems, to->out_elems >= 0);
	FILL(bytes, to->bytes >= 0);
	FILL(seq, to->seq >= 0);
	FILL(group_size, to->group_size >= 0);
	FILL(peer, to->peer >= 0);
	FILL(root, to->root >= 0);
#undef FILL
}
