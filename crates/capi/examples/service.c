/* A service in C on Freehold: a heap for each request, with a limit, ended at once; figures at the end.
 *
 *   cc service.c $(pkg-config --cflags --libs freehold) -o service && ./service
 */
#include <errno.h>
#include <freehold.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct word {
    struct word *next;
    char text[];
};

/* Keeps the words of a request in the request's own heap; null when the request is too large for it. */
static struct word *parse(freehold_heap *heap, const char *request) {
    struct word *words = NULL;
    while (*request) {
        size_t len = strcspn(request, " ");
        struct word *word = freehold_heap_malloc(heap, sizeof *word + len + 1);
        if (!word) return NULL;
        memcpy(word->text, request, len);
        word->text[len] = 0;
        word->next = words;
        words = word;
        request += len + strspn(request + len, " ");
    }
    return words;
}

static int serve(const char *request) {
    freehold_heap *heap = freehold_heap_create(1 << 20, "request");
    if (!heap) return -1;
    int count = 0;
    for (struct word *word = parse(heap, request); word; word = word->next) count++;
    /* No list to walk, no block to forget: everything that the request allocated ends here. */
    freehold_heap_destroy(heap);
    return count;
}

int main(void) {
    int words = 0;
    for (int i = 0; i < 1000; i++) words += serve("who allocates much for a short time frees nothing one by one");
    printf("%d words\n", words);

    static char large[4 << 20];
    memset(large, 'x', sizeof large - 1);
    errno = 0;
    words = serve(large);
    printf("a request of 4 MiB: %d words, %s\n", words, errno == ENOMEM ? "refused for its limit" : "?");

    fflush(stdout);
    return freehold_stats_write(STDOUT_FILENO, FREEHOLD_JSON) == 0 ? 0 : 1;
}
