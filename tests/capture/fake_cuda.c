/* libcuda.so.1 without a GPU: what the driver's cuInit does with an injection, and the calls that
 * the tracer makes. FAKE_CUDA_INIT_MS: how long cuInit takes after the injection; FAKE_CUDA_DRIVER:
 * the version it says. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/fake_cupti.h"

enum { NOT_INITIALIZED = 3, CBID_VERSION = 2, CBID_COUNT = 4 };

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *n);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int is_up;

static int number_of(const char *name, int usual)
{
	const char *text = getenv(name);

	return text ? atoi(text) : usual;
}

static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	void *found = library ? dlsym(library, "InitializeInjection") : NULL;
	const int ms = number_of("FAKE_CUDA_INIT_MS", 0);
	int (*entry)(void) = NULL;

	memcpy(&entry, &found, sizeof(entry));
	if (entry)
		entry();
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
	is_up = 1;
}

int cuInit(unsigned flags)
{
	(void)flags;
	pthread_once(&once, inject);
	return 0;
}

int fake_cuda_is_up(void)
{
	return is_up;
}

/* CUPTI sees every call of the driver from within. */
static void call_seen(uint32_t cbid)
{
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
	void *found = cupti ? dlsym(cupti, "fake_cupti_driver_call") : NULL;
	void (*seen)(uint32_t) = NULL;

	memcpy(&seen, &found, sizeof(seen));
	if (seen)
		seen(cbid);
}

int cuDriverGetVersion(int *version)
{
	*version = number_of("FAKE_CUDA_DRIVER", 13000);
	call_seen(CBID_VERSION);
	return 0;
}

int cuDeviceGetCount(int *n)
{
	if (!is_up)
		return NOT_INITIALIZED;
	*n = 1;
	call_seen(CBID_COUNT);
	return 0;
}
