/* The library comes by dlopen, into threads that exist already. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *(*allocate)(size_t);
static void (*release)(void *);

static void *use(void *ignored) {
    (void)ignored;
    for (int i = 0; i < 1000; i++) {
        char *p = allocate(i);
        CHECK(p);
        memset(p, 1, i);
        release(p);
    }
    return 0;
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : 0;
    if (!library) printf("%s\n", dlerror());
    CHECK(library);
    if (library) {
        allocate = dlsym(library, "malloc");
        release = dlsym(library, "free");
        CHECK(allocate && release && allocate != malloc);
        use(0);
        pthread_t thread;
        CHECK(!pthread_create(&thread, 0, use, 0));
        pthread_join(thread, 0);
    }
    return broken != 0;
}
