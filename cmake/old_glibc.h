/* What glibc moved or renamed since 2.17, by its first version, for the tracer: the program that is recorded brings its own C
 * library, which on a cluster may be years older than the one that the tracer was built with. Included before each of its
 * sources (CMakeLists.txt), which know nothing of it. */
#include <sys/stat.h>

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#ifdef __x86_64__
enum { OLD_STAT_VERSION = 1 };
#define OLDEST(name, since) __asm__(".symver " #name "," #name "@GLIBC_" since)
#else
enum { OLD_STAT_VERSION = 0 };
#define OLDEST(name, since) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#endif
OLDEST(dlopen, "2.2.5");
OLDEST(dlsym, "2.2.5");
OLDEST(pthread_condattr_setclock, "2.3.3");
OLDEST(pthread_create, "2.2.5");
OLDEST(pthread_join, "2.2.5");
OLDEST(pthread_key_create, "2.2.5");
OLDEST(pthread_once, "2.2.5");
OLDEST(pthread_setspecific, "2.2.5");
OLDEST(pthread_sigmask, "2.2.5");
OLDEST(__fxstat, "2.2.5");

int __fxstat(int version, int fd, struct stat *out);
static inline int old_fstat(int fd, struct stat *out)
{
	return __fxstat(OLD_STAT_VERSION, fd, out);
}
#define fstat old_fstat
#endif
