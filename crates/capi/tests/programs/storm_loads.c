/* storm_loads LIBRARY: the library comes by dlopen and goes by dlclose, again and again, while threads that use it live
 * on and end; other libraries come and go beside it. */
#include "check.h"
#include "memory.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 30, THREADS = 4 };

static void *(*allocate)(size_t);
static void (*release)(void *);
static pthread_barrier_t used, closed;

static void *use(void *unused) {
    for (int i = 0; i < 2000; i++) {
        char *p = allocate(i);
        CHECK(p);
        memset(p, 1, i);
        release(p);
    }
    pthread_barrier_wait(&used);
    /* The library is closed; this thread ends after that. */
    pthread_barrier_wait(&closed);
    return unused;
}

/* More than eight megabytes, so that memory is given back while the library is being closed. */
static void storm(void) {
    static void *blocks[3000];
    for (int i = 0; i < 3000; i++) memset(blocks[i] = allocate(8000), 1, 8000);
    for (int i = 0; i < 3000; i++) release(blocks[i]);
}

static void round_of(const char *path) {
    pthread_t threads[THREADS];
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) printf("%s\n", dlerror());
    CHECK(library);
    if (!library) return;
    allocate = (void *(*)(size_t))dlsym(library, "malloc");
    release = (void (*)(void *))dlsym(library, "free");
    CHECK(allocate && release && allocate != malloc);
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], 0, use, 0));
    void *other = dlopen("libm.so.6", RTLD_NOW);
    storm();
    if (other) dlclose(other);
    pthread_barrier_wait(&used);
    dlclose(library);
    pthread_barrier_wait(&closed);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    pthread_barrier_init(&used, 0, THREADS + 1);
    pthread_barrier_init(&closed, 0, THREADS + 1);
    round_of(argv[1]);
    int before = mappings();
    for (int i = 1; i < ROUNDS; i++) round_of(argv[1]);
    /* Purged in the background, if at all: what matters is that rounds do not add up. */
    CHECK(resident_kib() < 80000);
    CHECK(mappings() < before + 50);
    return broken != 0;
}
