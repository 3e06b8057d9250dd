/* The memory that is in use, by granules of 16 bytes, in a table of its own outside of any heap; and the end of a case.
 * `take` and `give` are malloc and free that keep the table true: a block that overlaps another, or is not aligned to 16
 * bytes, ends the case at once. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void end(const char *verdict, const char *why) {
    char line[256] = "";
    strcat(strcat(strcat(strcat(line, verdict), *why ? " " : ""), why), "\n");
    ssize_t written = write(1, line, strlen(line));
    _exit(written < 0);
}
static void end_exploitable(const char *why) { end("exploitable", why); }
static void end_none(void) { end("none", ""); }

/* Open addressing: a granule's number + 1, and what it belongs to; `gone` stays where one was taken out. */
enum { SLOTS = 1 << 22 };
struct granule { uintptr_t number; const char *what; };
static const char gone[] = "";
static struct granule *granules;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct granule *find(uintptr_t number) {
    if (!granules) {
        granules = mmap(NULL, SLOTS * sizeof *granules, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (granules == MAP_FAILED) _exit(2);
    }
    struct granule *at = &granules[number * 0x9E3779B97F4A7C15u >> 42];
    while (at->number && at->number != number) at = at + 1 == granules + SLOTS ? granules : at + 1;
    return at;
}

/* Large blocks are known by some of their granules: one in each page, and the last. */
static size_t step_of(size_t len) { return len > 65536 ? 256 : 1; }

/* Marks memory as in use; the case ends if any of it was. */
static void remember(const void *from, size_t len, const char *what) {
    uintptr_t first = (uintptr_t)from / 16, last = ((uintptr_t)from + len - 1) / 16;
    pthread_mutex_lock(&lock);
    for (uintptr_t number = first;; number = number + step_of(len) < last ? number + step_of(len) : last) {
        struct granule *at = find(number);
        if (at->number && at->what != gone) end_exploitable(at->what);
        *at = (struct granule){number, what};
        if (number == last) break;
    }
    pthread_mutex_unlock(&lock);
}

static void forget(const void *from, size_t len) {
    uintptr_t first = (uintptr_t)from / 16, last = ((uintptr_t)from + len - 1) / 16;
    pthread_mutex_lock(&lock);
    for (uintptr_t number = first;; number = number + step_of(len) < last ? number + step_of(len) : last) {
        struct granule *at = find(number);
        if (at->number) at->what = gone;
        if (number == last) break;
    }
    pthread_mutex_unlock(&lock);
}

static void *take_unwritten(size_t len) {
    void *block = malloc(len);
    if (!block) end_none();
    if ((uintptr_t)block % 16) end_exploitable("a block that is not aligned");
    remember(block, len, "a block in use was handed out again");
    return block;
}

static void *take(size_t len) {
    char *block = take_unwritten(len);
    if (len > 65536) block[0] = block[len - 1] = 'n';
    else memset(block, 'n', len);
    return block;
}

static void give(void *block, size_t len) {
    forget(block, len);
    free(block);
}
