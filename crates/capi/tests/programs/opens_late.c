/* A program in C that opens a library in C++ (the argument), which runs out of memory and says how that went. */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    int (*runs_out)(void) = library ? (int (*)(void))dlsym(library, "plugin_runs_out") : 0;
    CHECK(runs_out && runs_out() == 1);
    CHECK(runs_out && runs_out() == 1);
    return broken != 0;
}
