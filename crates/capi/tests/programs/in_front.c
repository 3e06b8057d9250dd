/* A library in front of the C library, as libfaketime, fakeroot and their like are: its functions allocate, by malloc and by asking
 * the loader for a name that nobody has, and then do what the C library's do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void allocate(void) {
    dlsym(RTLD_NEXT, "a name that nobody has");
    free(malloc(100));
}

#define IN_FRONT(result, name, parameters, arguments)                                              \
    result name parameters {                                                                       \
        allocate();                                                                                \
        return ((result(*) parameters)dlsym(RTLD_NEXT, #name)) arguments;                          \
    }

IN_FRONT(pid_t, getpid, (void), ())
IN_FRONT(int, clock_gettime, (clockid_t clock, struct timespec *time), (clock, time))
IN_FRONT(int, open, (const char *path, int flags, ...), (path, flags, 0644))
IN_FRONT(int, close, (int file), (file))
IN_FRONT(ssize_t, read, (int file, void *to, size_t len), (file, to, len))
IN_FRONT(ssize_t, pread, (int file, void *to, size_t len, off_t at), (file, to, len, at))
IN_FRONT(ssize_t, write, (int file, const void *from, size_t len), (file, from, len))
IN_FRONT(int, stat, (const char *path, struct stat *to), (path, to))
IN_FRONT(int, rename, (const char *from, const char *to), (from, to))
IN_FRONT(int, unlink, (const char *path), (path))

__attribute__((constructor)) static void begin(void) {
    /* What hangs shall end. */
    alarm(30);
    allocate();
}
