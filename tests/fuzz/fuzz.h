/* A fuzz target: fuzz_<parser>.c includes this and defines the one function below. It must
 * take any bytes: whatever it returns, it may not crash, leak, hang or run into undefined
 * behaviour. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* returns 0 */
