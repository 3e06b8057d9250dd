/* Opens a library (its name is the argument) in every way, and passes blocks to and fro. The name has no folder: the
 * loader finds it by this program's own RUNPATH, for which it must know who calls. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef char *copy_of(const char *);
typedef void *make_of(size_t), *grow_of(void *, size_t);
typedef void free_of(void *);
typedef int works_of(void);

static void *need(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : 0;
    if (!found) printf("%s: %s\n", name, dlerror()), exit(1);
    return found;
}

/* Everybody frees what others made. */
static void shares(void *library) {
    copy_of *copy = (copy_of *)need(library, "plugin_copy");
    make_of *make = (make_of *)need(library, "plugin_make");
    grow_of *grow = (grow_of *)need(library, "plugin_grow");
    free_of *gone = (free_of *)need(library, "plugin_free");
    for (size_t size = 1; size < 3000000; size = size * 2 + 1) {
        char *text = malloc(size + 1);
        memset(text, 't', size);
        text[size] = 0;
        char *copied = copy(text), *made = make(size);
        CHECK(!strcmp(text, copied) && made[size - 1] == 'p');
        gone(text);
        free(copied);
        made = grow(made, size + 100);
        made = realloc(made, size + 5000);
        CHECK(made[0] == 'p' && made[size - 1] == 'p');
        made = grow(made, size);
        free(made);
        gone(strdup("of the program's C library"));
    }
    CHECK(((works_of *)need(library, "plugin_works"))());
}

int main(int argc, char **argv) {
    const char *name = argv[argc - 1];
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    shares(library);
    free(((char *(*)(void))need(library, "plugin_early"))());
    CHECK(!dlclose(library));
    library = dlmopen(LM_ID_BASE, name, RTLD_LAZY | RTLD_DEEPBIND);
    shares(library);
    CHECK(!dlclose(library));
    library = dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
    shares(library);

    /* A namespace of its own has a C library of its own: what it makes it frees. */
    for (int deep = 0; deep < 2; deep++) {
        void *apart = dlmopen(LM_ID_NEWLM, name, RTLD_NOW | (deep ? RTLD_DEEPBIND : 0));
        CHECK(((works_of *)need(apart, "plugin_works"))());
        copy_of *copy = (copy_of *)need(apart, "plugin_copy");
        CHECK((void *)copy != need(library, "plugin_copy"));
        char *copied = copy("apart");
        CHECK(!strcmp(copied, "apart"));
        ((free_of *)need(apart, "plugin_free"))(copied);
        CHECK(!dlclose(apart));
    }

    /* What is wrong is told as ever. */
    CHECK(dlopen(0, RTLD_NOW));
    CHECK(!dlopen("no-such-library.so", RTLD_NOW | RTLD_DEEPBIND) && strstr(dlerror(), "no-such-library.so"));
    CHECK(!dlmopen(LM_ID_BASE, "no-such-library.so", RTLD_NOW) && strstr(dlerror(), "no-such-library.so"));
    return broken != 0;
}
