/* A library that comes and goes: it allocates when it is loaded, in its functions, per thread, and frees when it goes. */
#include <stdlib.h>
#include <string.h>

static char *held[50];
static __thread char *own;

__attribute__((constructor)) static void begin(void) {
    for (int i = 0; i < 50; i++) held[i] = calloc(1, (size_t)i * 100 + 1);
}

__attribute__((destructor)) static void end(void) {
    for (int i = 0; i < 50; i++) free(held[i]);
}

void *plugin_use(int seed) {
    free(own);
    own = malloc((size_t)seed * 10 + 1);
    memset(own, seed, (size_t)seed * 10 + 1);
    char *given = strdup(own && seed ? "given" : "");
    free(own);
    own = NULL;
    return given;
}
