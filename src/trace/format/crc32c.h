/* CRC-32C (Castagnoli, RFC 3720): by the processor's instruction where it has one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The sum of `n` bytes, going on from `crc` (0 at the start): pieces give what the whole gives. */
uint32_t sc_crc32c(uint32_t crc, const void *data, size_t n);
