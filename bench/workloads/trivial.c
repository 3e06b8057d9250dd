/* trivial
 *
 * The smallest program that allocates: what a preloaded library costs at start-up shows beside it.
 */
#include <stdlib.h>

int main(void) {
    char *volatile block = malloc(100);
    if (!block) return 3;
    block[0] = 1;
    free(block);
    return 0;
}
