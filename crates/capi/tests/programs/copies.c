/* copies LIBRARY…: several copies of the library in one process, all by dlopen, each with its own thread-local word out of
 * the C library's surplus, its own heap, its own destructors and fork handlers. None takes another's blocks for its own. */
#include "check.h"
#include "memory.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 32, BLOCKS = 300 };

static int copies;
static struct {
    void *(*allocate)(size_t);
    void (*release)(void *);
} copy[MOST];

static void *use(void *unused) {
    static __thread char *blocks[MOST][BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        for (int c = 0; c < copies; c++) {
            blocks[c][i] = copy[c].allocate(i * 5 + 1);
            CHECK(blocks[c][i]);
            memset(blocks[c][i], c + 1, i * 5 + 1);
        }
    for (int c = 0; c < copies; c++)
        for (int i = 0; i < BLOCKS; i++) {
            for (int j = 0; j < i * 5 + 1; j++) CHECK(blocks[c][i][j] == c + 1);
            copy[c].release(blocks[c][i]);
        }
    return unused;
}

static void in_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], 0, use, 0));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}

int main(int argc, char **argv) {
    for (copies = 0; copies + 1 < argc && copies < MOST; copies++) {
        void *library = dlopen(argv[copies + 1], RTLD_NOW | RTLD_LOCAL);
        if (!library) printf("%s\n", dlerror());
        CHECK(library);
        if (!library) return 1;
        copy[copies].allocate = (void *(*)(size_t))dlsym(library, "malloc");
        copy[copies].release = (void (*)(void *))dlsym(library, "free");
        for (int c = 0; c < copies; c++) CHECK(copy[c].allocate != copy[copies].allocate);
    }
    use(0);
    in_threads();
    pid_t pid = fork();
    if (pid == 0) {
        in_threads();
        _exit(broken != 0);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(resident_kib() < 100000);
    return broken != 0;
}
