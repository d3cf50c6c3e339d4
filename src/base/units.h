/* The only place for conversion factors. Modelled time is in microseconds (double),
 * bandwidth `_gbps` in 1e9 bytes per second, rates `_tflops` in 1e12 FLOP per second. */
#pragma once

#include <stdint.h>

#define SC_US_PER_MS 1e3
#define SC_US_PER_S 1e6
#define SC_MS_PER_S 1e3
#define SC_MS_PER_HOUR 3.6e6
#define SC_W_PER_KW 1e3
#define SC_W_MS_PER_KJ 1e6
#define SC_NS_PER_US INT64_C(1000) /* integers: trace time */
#define SC_NS_PER_MS INT64_C(1000000)
#define SC_NS_PER_S INT64_C(1000000000)
#define SC_BYTES_PER_KIB 1024.0
#define SC_BYTES_PER_MIB (1024.0 * 1024.0)
#define SC_BYTES_PER_GIB (1024.0 * 1024.0 * 1024.0)
#define SC_BYTES_PER_GB 1e9
#define SC_BITS_PER_BYTE 8.0
#define SC_MBIT_PER_GBIT 1e3
#define SC_PCT 100.0 /* of a whole */
#define SC_PER_MILLE 1000.0
#define SC_BYTES_US_PER_GBPS 1e3  /* bytes in a microsecond at 1 GB/s */
#define SC_FLOP_US_PER_TFLOPS 1e6 /* FLOP in a microsecond at 1 TFLOP/s */

static inline double sc_ns_us(int64_t ns)
{
	return (double)ns / (double)SC_NS_PER_US;
}
static inline double sc_bytes_us(double bytes, double gbps)
{
	return bytes / (gbps * SC_BYTES_US_PER_GBPS);
}
static inline double sc_flop_us(double flop, double tflops)
{
	return flop / (tflops * SC_FLOP_US_PER_TFLOPS);
}
static inline double sc_mbit_to_gbit(double mbit_s)
{
	return mbit_s / SC_MBIT_PER_GBIT;
}
static inline double sc_gbit_to_gbps(double gbit_s)
{
	return gbit_s / SC_BITS_PER_BYTE;
}
static inline double sc_mhz_cycles_us(double cycles, double mhz)
{
	return cycles / mhz;
}
