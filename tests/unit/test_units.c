/* Conversions, each against a case in whole numbers. */
#include "base/units.h"
#include "runner.h"

TEST(test_conversions)
{
	ck_assert_double_eq(sc_bytes_us(2e9, 2.0), 1e6);     /* 2 GB at 2 GB/s: a second */
	ck_assert_double_eq(sc_flop_us(312e12, 312.0), 1e6); /* 312 TFLOP at 312 TFLOP/s */
	ck_assert_double_eq(sc_gbit_to_gbps(200.0), 25.0);
	ck_assert_double_eq(sc_mbit_to_gbit(200e3), 200.0);
	ck_assert_double_eq(sc_mhz_cycles_us(1410.0, 1410.0), 1.0);
	ck_assert_double_eq(SC_BYTES_PER_GIB, 1073741824.0);
	ck_assert_int_eq(SC_NS_PER_S, SC_NS_PER_MS * 1000);
	ck_assert_int_eq(SC_NS_PER_MS, SC_NS_PER_US * 1000);
}
