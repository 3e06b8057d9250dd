/* Each check of mimalloc's test-api is a case of its own: the one that SOAK_CHECK names is done, and decides the exit; with
 * SOAK_CHECK=list their names are printed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shim_exit = 2; /* no such check */

static bool shim_wanted(const char *name) {
    const char *check = getenv("SOAK_CHECK");
    if (check && !strcmp(check, "list")) puts(name), shim_exit = 0;
    return check && !strcmp(check, name);
}

#define CHECK_BODY(name) \
    errno = 0; \
    for (bool run = shim_wanted(name), result = true; run; run = false, shim_exit = !result)
#define CHECK(name, it) CHECK_BODY(name) { result = (it); }
static int print_test_summary(void) { return shim_exit; }
