/* libcuda.so.1 without a GPU: what the driver's cuInit does with an injection, and nothing else. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	void *found = library ? dlsym(library, "InitializeInjection") : NULL;
	int (*entry)(void) = NULL;

	memcpy(&entry, &found, sizeof(entry));
	if (entry)
		entry();
}

int cuInit(unsigned flags)
{
	(void)flags;
	pthread_once(&once, inject);
	return 0;
}
