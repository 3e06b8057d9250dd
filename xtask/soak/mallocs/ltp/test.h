/* The older interface of the Linux Test Project's library: the test brings its own `main`. */
#define SOAK_NO_MAIN
#include "tst_test.h"
#define tst_resm(kind, ...) tst_res(kind, __VA_ARGS__)
#define tst_brkm(kind, cleanup, ...) ((void)(cleanup), tst_brk(kind, __VA_ARGS__))
#define tst_exit() exit(shim_failures || !shim_passes)
