/* Text to numbers: whole text or nothing. */
#include <float.h>
#include <stdint.h>

#include "base/num.h"
#include "runner.h"

static const struct {
	const char *text;
	double value;
} doubles[] = {
	{"0", 0.0},
	{"12", 12.0},
	{"-3.5", -3.5},
	{"+4", 4.0},
	{".5", 0.5},
	{"5.", 5.0},
	{"1e3", 1e3},
	{"1E-3", 1e-3},
	{"2.5e+2", 250.0},
	{"007", 7.0},
	{"1.7976931348623157e308", DBL_MAX},
	{"0.1", 0.1},
	{"123456789012345678901234567890", 1.2345678901234568e29},
};

LOOP_TEST(test_double, N_OF(doubles))
{
	double value = -1.0;

	ck_assert(sc_parse_double(doubles[_i].text, &value));
	ck_assert_double_eq(value, doubles[_i].value);
}

static const struct {
	const char *text;
	int64_t value;
} ints[] = {
	{"0", 0},
	{"-0", 0},
	{"12", 12},
	{"-3", -3},
	{"+4", 4},
	{"007", 7},
	{"5.12e4", 51200},
	{"1e0", 1},
	{"100e-2", 1},
	{"1.50e1", 15},
	{"12.000", 12},
	{"1.0000000000000000000000000000", 1},
	{"0.000000000000000000000000001e27", 1},
	{"0e999999999999999999999", 0},
	{"0.0e-5", 0},
	{"1000000000000000000000e-20", 10},
	{"9223372036854775807", INT64_MAX},
	{"-9223372036854775808", INT64_MIN},
	{"9.007199254740992e15", 9007199254740992},
	{"9007199254740993", 9007199254740993},
};

LOOP_TEST(test_int, N_OF(ints))
{
	int64_t value = -1;

	ck_assert(sc_parse_int(ints[_i].text, &value));
	ck_assert_int_eq(value, ints[_i].value);
}

static const char *const neither[] = {
	"",     "x",   " 1",   "1 ",  "1x",  "-",     "+",   ".",     "e5",  "1e",  "1e+",
	"0x10", "inf", "-inf", "nan", "1,5", "1.2.3", "--1", "1e5.0", "1_0", "\t1", "1\n",
};

LOOP_TEST(test_neither, N_OF(neither))
{
	int64_t i = 42;
	double d = 42.0;

	ck_assert(!sc_parse_double(neither[_i], &d));
	ck_assert(!sc_parse_int(neither[_i], &i));
	ck_assert_int_eq(i, 42);
	ck_assert_double_eq(d, 42.0);
}

TEST(test_null)
{
	int64_t i;
	double d;

	ck_assert(!sc_parse_double(NULL, &d));
	ck_assert(!sc_parse_int(NULL, &i));
}

static const char *const not_doubles[] = {"1e309", "-1e309", "1e-400", "1e99999999999999999999"};

LOOP_TEST(test_not_double, N_OF(not_doubles))
{
	double d = 42.0;

	ck_assert(!sc_parse_double(not_doubles[_i], &d));
	ck_assert_double_eq(d, 42.0);
}

static const char *const not_ints[] = {
	"1.5",
	"5e-1",
	"9223372036854775808",
	"-9223372036854775809",
	"1e19",
	"18446744073709551616",
	"99999999999999999999",
	"100000000000000000001",
	"1e16",
	"1e99999999999999999999",
	"10e9223372036854775807",
	"1e-99999999999999999999",
	"0.1",
};

LOOP_TEST(test_not_int, N_OF(not_ints))
{
	int64_t i = 42;

	ck_assert(!sc_parse_int(not_ints[_i], &i));
	ck_assert_int_eq(i, 42);
}
