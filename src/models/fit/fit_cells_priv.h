/* How the columns of a table are told to its readers: fields of struct sc_fit_cells. */
#pragma once

#include <stddef.h>

#include "models/fit/fit_priv.h"

#define MAX_TIME_US 1e12
#define NUMBER(key_, member, lo, hi)                                                               \
	{                                                                                          \
		.key = key_, .type = SC_F_DOUBLE, .offset = offsetof(struct sc_fit_cells, member), \
		.min = lo, .max = hi, .required = true                                             \
	}
#define NUMBER_OR(key_, member, lo, hi, absent_)                                                   \
	{                                                                                          \
		.key = key_, .type = SC_F_DOUBLE, .offset = offsetof(struct sc_fit_cells, member), \
		.min = lo, .max = hi, .absent = absent_                                            \
	}
#define SIZE(member) NUMBER(#member, member, 1, SC_FIT_MAX_SIZE)
#define SIZE_OR(member, absent_) NUMBER_OR(#member, member, 1, SC_FIT_MAX_SIZE, absent_)
#define NAME(member, names_)                                                     \
	{                                                                        \
		.key = #member, .type = SC_F_ENUM, .absent = -1,                 \
		.offset = offsetof(struct sc_fit_cells, member), .names = names_ \
	}
#define TEXT(key_, member)                                                                     \
	{                                                                                      \
		.key = key_, .type = SC_F_STR, .offset = offsetof(struct sc_fit_cells, member) \
	}
#define TIME(key_) NUMBER(key_, time_us, 1e-6, MAX_TIME_US)
#define ORIGIN TEXT("source", source), TEXT("op", op_name), TEXT("pass", pass_name)
#define NAMED(key_, member, names_)                                              \
	{                                                                        \
		.key = key_, .type = SC_F_ENUM, .required = true,                \
		.offset = offsetof(struct sc_fit_cells, member), .names = names_ \
	}
