/* Tells what a kernel computes, from its name alone: cuBLAS, CUTLASS, cuDNN, PyTorch, fbgemm,
 * Triton, Tensile. */
#pragma once

#include "core/graph/cost.h"

enum sc_kernel_family {
	SC_FAMILY_GEMM, /* and convolutions */
	SC_FAMILY_ATTENTION,
	SC_FAMILY_EMBEDDING,
	SC_FAMILY_NORM,
	SC_FAMILY_SOFTMAX,
	SC_FAMILY_REDUCTION,
	SC_FAMILY_ELEMENTWISE,
	SC_FAMILY_OPTIMIZER,
	SC_FAMILY_SORT, /* and scans, index work */
	SC_FAMILY_COLLECTIVE,
	SC_FAMILY_COPY, /* and fills */
	SC_FAMILY_OTHER,
	SC_N_KERNEL_FAMILIES
};
enum sc_kernel_family sc_kernel_family_of(const char *name);
const char *sc_kernel_family_name(enum sc_kernel_family family); /* "gemm" */
enum sc_owner sc_kernel_family_owner(enum sc_kernel_family family);
