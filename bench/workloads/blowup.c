/* blowup PATTERN BYTES
 *
 * How much memory an allocator needs for at most BYTES of live blocks when the program is against it. Sizes double from
 * 16 B to 32 KiB. At each, the heap is filled to BYTES; then PATTERN decides what stays:
 *   shift   a random fiftieth: a program whose favourite size changes;
 *   scatter the same, but what goes is freed in random order: neighbours in time are none in memory;
 *   sieve   the first block met in each window of addresses, as wide as two of the blocks or a page (the wider): after
 *           Robson's adversary (1971), no hole is left that would hold a block of the next size twice over.
 * Prints the peaks of live bytes (as asked for) and of resident memory without this program's own tables.
 */
#include "bench.h"
#include <fcntl.h>
#include <unistd.h>

enum { WINDOWS = 1 << 21, FROM = 16, TO = 32768 };

/* Windows met already, by open addressing; a window's number is never 0. */
static uint64_t *met;

static int first_in_window(uintptr_t address, size_t width) {
    uint64_t window = address / width;
    for (uint64_t at = window * 0x9E3779B97F4A7C15u >> 43;; at = (at + 1) % WINDOWS) {
        if (met[at] == window) return 0;
        if (met[at] == 0) return met[at] = window, 1;
    }
}

/* Resident anonymous bytes of the process, read without allocating. */
static uint64_t rss(void) {
    char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length <= 0) die("cannot read /proc/self/smaps_rollup");
    close(file);
    text[length] = 0;
    const char *line = strstr(text, "\nRss:");
    if (!line) die("smaps_rollup has no Rss");
    return strtoull(line + 5, NULL, 10) * 1024;
}

typedef struct { Slot *slots; size_t count; uint64_t live; } Heap;

static void fill_to(Heap *h, uint64_t bytes, size_t size) {
    for (; h->live + size <= bytes; h->live += size) {
        Slot *slot = &h->slots[h->count++];
        slot_fill(slot, size);
        memset((char *)slot->block + 8, 1, size - 16); /* whole, but for the marks */
    }
}

static void sieve(Heap *h, size_t size, int by_window, Rng *rng) {
    size_t kept = 0, width = 2 * size > 4096 ? 2 * size : 4096;
    memset(met, 0, WINDOWS * sizeof *met);
    for (size_t i = 0; i < h->count; i++) {
        Slot *slot = &h->slots[i];
        int stays = by_window ? first_in_window((uintptr_t)slot->block, width) : below(rng, 50) == 0;
        if (stays) {
            h->slots[kept++] = *slot;
        } else {
            h->live -= slot->size;
            slot_clear(slot);
        }
    }
    h->count = kept;
}

static void shuffle(Heap *h, Rng *rng) {
    for (size_t i = h->count; i > 1; i--) {
        Slot *a = &h->slots[i - 1], *b = &h->slots[below(rng, (uint32_t)i)], slot = *a;
        *a = *b;
        *b = slot;
    }
}

int main(int argc, char **argv) {
    if (argc < 3) die("a parameter is missing (see the head of the source)");
    int by_window = argv[1][1] == 'i', scattered = argv[1][1] == 'c';
    uint64_t bytes = number(argc, argv, 2), peak_live = 0, peak_rss = 0;
    size_t own = bytes / FROM * sizeof(Slot);
    Heap heap = {table(own), 0, 0};
    met = table(WINDOWS * sizeof *met);
    memset(heap.slots, 0, own);
    memset(met, 0, WINDOWS * sizeof *met);
    Rng rng = rng_of(1);
    uint64_t start = rss();
    for (size_t size = FROM; size <= TO; size *= 2) {
        fill_to(&heap, bytes, size);
        uint64_t now = rss() - start;
        if (now > peak_rss) peak_rss = now;
        if (heap.live > peak_live) peak_live = heap.live;
        if (scattered) shuffle(&heap, &rng);
        sieve(&heap, size, by_window, &rng);
    }
    for (size_t i = 0; i < heap.count; i++) slot_clear(&heap.slots[i]);
    printf("{\"live\":%llu,\"peak_rss\":%llu}\n", (unsigned long long)peak_live, (unsigned long long)peak_rss);
}
