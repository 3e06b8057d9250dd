/* A library that takes blocks from the C library and the program, and gives them blocks. Opened with RTLD_DEEPBIND its
 * malloc and free would be the C library's. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *made_early;

__attribute__((constructor)) static void begin(void) {
    char *line = 0;
    if (asprintf(&line, "%d of them", 7) != 9) abort();
    free(line);
    made_early = strdup("made by a constructor");
}

/* What the C library made, of any size. */
char *plugin_copy(const char *text) { return strdup(text); }
char *plugin_early(void) { return made_early; }

/* What the library made itself. */
void *plugin_make(size_t size) { return memset(malloc(size), 'p', size); }
void *plugin_grow(void *block, size_t size) { return realloc(block, size); }
void plugin_free(void *block) { free(block); }

/* All by itself, a great deal of it. */
int plugin_works(void) {
    char *lines[1000] = {0};
    for (int i = 0; i < 20000; i++) {
        char **line = &lines[i * 7 % 1000];
        free(*line);
        if (asprintf(line, "%*d", 1 + i % 3000, i) < 0) return 0;
        if (i % 3 == 0) *line = realloc(*line, 1 + i % 70000);
    }
    for (int i = 0; i < 1000; i++) free(lines[i]);
    return 1;
}
