/* What every program here checks with: a line for each broken promise, and how many there were. */
#include <stdio.h>

static int broken;
#define CHECK(promise)                                                                             \
    do {                                                                                           \
        if (!(promise)) {                                                                          \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #promise);                                   \
            broken++;                                                                              \
        }                                                                                          \
    } while (0)
