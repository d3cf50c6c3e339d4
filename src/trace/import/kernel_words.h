/* The words of a kernel's name: "void at::native::CatArrayBatchedCopy<float,
 * FillFunctor<int>>(int)" is of "at native cat array batched copy", its template arguments of
 * "float fill functor int". Demangled names and mangled ones of the Itanium ABI. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SC_WORDS_MAX = 1536 };

/* Lower-case letters and digits without what is between them; `edge` is where a word begins, and
 * after the last one. A blank is between names that are not of one qualified name. */
struct sc_words {
	size_t n;
	char text[SC_WORDS_MAX];
	bool edge[SC_WORDS_MAX + 1];
};
struct sc_kernel_words {
	struct sc_words own;       /* of the function and its namespaces */
	struct sc_words arguments; /* of its template arguments */
};
/* Splits a name, and of a very long one the beginning. The function's parameters are left out. */
void sc_kernel_words_split(const char *name, struct sc_kernel_words *out);
/* Is it one word or several whole ones that follow each other: "softmax" is in soft_max, SoftMax,
 * softmax, but "lamb" is not in lambda. */
bool sc_words_have(const struct sc_words *words, const char *wanted);
