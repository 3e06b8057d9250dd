/* misuse CASE SIZE VARIANT: one misuse of malloc, in a way that does not know which malloc it is.
 *
 * A case prepares blocks, does the misuse, and then keeps allocating, freeing and writing. All blocks that are in use are
 * known to `live.h`, which tells at once when malloc hands out memory that is in use, memory of the attacker's choice, or
 * a block that is not aligned. What is printed decides, unless a signal ended the program before:
 *
 *     exploitable WHY    malloc handed out what it must not, or old contents could be read or overwritten
 *     silent             nothing bad was seen
 *     none               there is no such call, or no such variant: the run does not count
 *
 * SIZE is that of small blocks. VARIANT numbers what an attacker may choose: contents, offsets, targets. The program itself
 * allocates nothing besides, so that each call is one of the case. cc -O0 -pthread (the compiler must keep misuse). */
#define _GNU_SOURCE
#include "live.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static size_t size;
static int variant;

/* Memory outside of the heap that an attacker would like to be handed. */
static _Alignas(4096) unsigned char outside[1 << 16];

/* What an attacker writes where contents matter: nothing, text, small odd numbers, a plausible size, addresses. */
enum { CONTENTS = 5 };
static void fill(void *at, size_t len, int contents) {
    uint64_t own = (uintptr_t)outside + 4096;
    uint64_t words[CONTENTS] = {0, 0x4141414141414141, 0x91, (size + 24) / 16 * 16 | 1, own};
    for (size_t i = 0; i + 8 <= len; i += 8) memcpy((char *)at + i, &words[contents % CONTENTS], 8);
}

/* A heap in use: blocks that stay, and free ones among them. */
static void warm_up(void) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = take(size);
    for (int i = 0; i < 64; i += 2) give(blocks[i], size);
}

/* Ordinary work of a program afterwards: what is wrong shows here. Sizes around `main_size`, mostly itself. */
static void go_on(size_t main_size, int rounds) {
    enum { KEPT = 512 };
    static void *kept[KEPT];
    static size_t sizes[KEPT];
    uint64_t random = 88172645463325252u;
    int slots = main_size > 65536 ? 16 : KEPT;
    for (int i = 0; i < rounds; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int slot = (int)(random % (unsigned)slots);
        if (kept[slot]) give(kept[slot], sizes[slot]);
        sizes[slot] = random >> 40 & 7 ? main_size : main_size * (1 + (random >> 44 & 3)) + 8;
        kept[slot] = take(sizes[slot]);
    }
    for (int i = 0; i < slots; i++)
        if (kept[i]) give(kept[i], sizes[i]), kept[i] = NULL;
}

static void go_on_small(void) {
    /* First without a free, as the attacker would; then for longer than any quarantine lasts. */
    for (int i = 0; i < 300; i++) take(size);
    go_on(size, 40000);
    for (int i = 0; i < 300; i++) take(size);
}

/* double free */
static void double_free(void) {
    if (variant >= 2) end_none();
    warm_up();
    void *p = take(size);
    if (variant) for (int i = 0; i < 20; i++) give(take(size), size);
    give(p, size);
    free(p);
    go_on_small();
}

static void double_free_after_another(void) {
    if (variant >= 3) end_none();
    warm_up();
    void *p = take(size), *others[40];
    int between = variant == 0 ? 1 : variant == 1 ? 8 : 40;
    for (int i = 0; i < between; i++) others[i] = take(size);
    give(p, size);
    for (int i = 0; i < between; i++) give(others[i], size);
    free(p);
    go_on_small();
}

static void double_free_mark_overwritten(void) {
    if (variant >= CONTENTS + 1) end_none();
    warm_up();
    char *p = take(size);
    give(p, size);
    /* The whole block, or all but its first word. */
    if (variant < CONTENTS) fill(p, size, variant);
    else fill(p + 8, size - 8, 1);
    free(p);
    go_on_small();
}

static void *free_here(void *p) {
    free(p);
    for (int i = 0; i < 50; i++) take(size);
    return NULL;
}

static void in_thread(void *(*what)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, argument)) end_none();
    pthread_join(thread, NULL);
}

static void *just_free(void *p) {
    free(p);
    return NULL;
}

static void double_free_other_thread(void) {
    if (variant >= 3) end_none();
    warm_up();
    void *p = take(size);
    if (variant == 2) forget(p, size), in_thread(just_free, p); /* both frees by others */
    else give(p, size);
    if (variant == 1) in_thread(just_free, p);
    else in_thread(free_here, p);
    go_on_small();
}

static void double_free_large(void) {
    static const size_t sizes[] = {100 << 10, 300 << 10, 3 << 20, 40 << 20};
    if (variant >= 8) end_none();
    size_t large = sizes[variant % 4];
    void *warm = take(large), *p = take(large), *other = take(large);
    give(warm, large);
    give(p, large);
    if (variant >= 4) give(other, large);
    free(p);
    go_on(large, 400);
}

/* frees of what is no block */
static void interior_free_small(void) {
    static const size_t offsets[] = {16, 8, 32};
    if (variant >= CONTENTS * 3 || offsets[variant / CONTENTS] + 8 > size) end_none();
    warm_up();
    char *p = take(size);
    fill(p, size, variant % CONTENTS);
    free(p + offsets[variant / CONTENTS]);
    go_on_small();
}

static void interior_free_large(void) {
    static const size_t offsets[] = {16, 4096, 65536};
    enum { LARGE = 600 << 10 };
    if (variant >= CONTENTS * 3) end_none();
    char *p = take(LARGE);
    fill(p, LARGE, variant % CONTENTS);
    free(p + offsets[variant / CONTENTS]);
    go_on(size, 2000);
    go_on(LARGE, 100);
}

static void foreign_free(void) {
    if (variant >= CONTENTS * 3) end_none();
    warm_up();
    char stack[8192];
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *areas[] = {(char *)(((uintptr_t)stack + 4095) & ~(uintptr_t)4095), (char *)outside, mapped};
    char *area = areas[variant / CONTENTS];
    fill(area, 4096, variant % CONTENTS);
    remember(area, 4096, "what is no block");
    free(area + 64);
    go_on_small();
}

/* links */
enum { TARGETS = 3 };

/* What the attacker wants to be handed: memory outside of the heap, a block in use, a place inside one. */
static uintptr_t target(int which) {
    if (which == 0) {
        remember(outside + 4096, size, "the attacker's choice");
        return (uintptr_t)outside + 4096;
    }
    char *victim = take(size);
    fill(victim, size, 0);
    return (uintptr_t)victim + (which == 2 ? 16 : 0);
}

/* Two blocks freed one after the other, b last: its link, wherever it lies, leads to a. */
struct pair { uint64_t *a, *b; };
static struct pair free_two(void) {
    void *before = take(size);
    struct pair pair = {take(size), take(size)};
    void *behind = take(size);
    (void)before, (void)behind;
    give(pair.a, size);
    give(pair.b, size);
    return pair;
}

static void overwrite_blindly(void) {
    if (variant >= TARGETS * 2) end_none();
    warm_up();
    uintptr_t wanted = target(variant % TARGETS);
    struct pair freed = free_two();
    for (size_t i = 0; i < (variant < TARGETS ? size / 8 : 1); i++) freed.b[i] = wanted;
    go_on_small();
}

/* The attacker has read the freed block and knows addresses: if a word is its link xored with anything, or a word is its own
 * address xored with the key that links have, this makes the target of the link. */
static void overwrite_after_leak(void) {
    if (variant >= TARGETS * 4) end_none();
    warm_up();
    uintptr_t wanted = target(variant % TARGETS);
    struct pair freed = free_two();
    size_t words = variant / TARGETS & 1 ? 1 : size / 8;
    uint64_t known = variant / TARGETS & 2 ? (uintptr_t)freed.b : (uintptr_t)freed.a;
    for (size_t i = 0; i < words; i++) freed.b[i] ^= known ^ wanted;
    go_on_small();
}

/* The attacker reads a block that was just handed out and never written, then overwrites a word of another free block, or of
 * the same one when it is free again. One word is what an overflow of 8 bytes from the block before reaches. */
static void key_by_uninitialised_read(void) {
    if (variant >= TARGETS * 16) end_none();
    warm_up();
    uintptr_t wanted = target(variant % TARGETS);
    int way = variant / TARGETS, from = way >> 3; /* the word that is read */
    struct pair freed = free_two();
    uint64_t *read = take_unwritten(size);
    uint64_t leaked = read[from] ^ (way & 1 ? (uintptr_t)freed.b : (uintptr_t)freed.a);
    uint64_t *written = read;
    if (way & 2) written = free_two().b;
    else give(read, size);
    size_t words = way & 4 ? size / 8 : 1;
    for (size_t i = 0; i < words; i++) written[i] = wanted ^ leaked;
    go_on_small();
}

/* overflows and use after free */
static void overflow(void) {
    if (variant >= CONTENTS * 2) end_none();
    enum { MANY = 200 };
    char *blocks[MANY], *left = NULL, *right = NULL;
    for (int i = 0; i < MANY; i++) blocks[i] = take(size);
    for (int i = 0; i < MANY; i++)
        for (int j = 0; j < MANY; j++)
            if (blocks[j] > blocks[i] && (!right || blocks[j] - blocks[i] < right - left))
                left = blocks[i], right = blocks[j];
    if (right - left > 4 * (long)size + 64) end_none();
    if (variant >= CONTENTS) give(right, size); /* the neighbour is free */
    for (char *at = left + size; at + 8 <= right + 16; at += 8) fill(at, 8, variant);
    give(left, size);
    if (variant < CONTENTS) give(right, size);
    go_on_small();
}

static void read_after_free(void) {
    static const char secret[] = "the secret of the block";
    if (variant >= 2 || size < 16 + sizeof secret) end_none();
    warm_up();
    volatile char *p = take(size);
    memcpy((char *)p + 16, secret, sizeof secret);
    give((char *)p, size);
    if (variant) for (int i = 0; i < 20; i++) give(take(size), size);
    if (memcmp((char *)p + 16, secret, sizeof secret) == 0) end_exploitable("the old contents can be read");
}

static void write_after_free(void) {
    if (variant >= 3) end_none();
    warm_up();
    char *p = take(size), *taken[200];
    give(p, size);
    int between = variant == 0 ? 0 : variant == 1 ? 10 : 200;
    for (int i = 0; i < between; i++) memset(taken[i] = take(size), 'n', size);
    memset(p, 'w', size);
    for (int i = 0; i < between; i++)
        if (memchr(taken[i], 'w', size)) end_exploitable("a block in use was overwritten");
    go_on_small();
}

/* free_sized, or where the malloc has no such call, delete with a size */
static void wrong_free_sized(void) {
    size_t wrong[] = {size * 4, size / 2, 1 << 20, size + 16, 1};
    if (variant >= 5) end_none();
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    if (!sized) {
        sized = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "_ZdlPvm");
        make = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    }
    if (!sized || !make) end_none();
    warm_up();
    void *p = make(size);
    sized(p, wrong[variant]);
    go_on(wrong[variant] < 16 ? 16 : wrong[variant], 3000); /* smaller blocks need no alignment of 16 */
    go_on_small();
}

static const struct { const char *name; void (*run)(void); } cases[] = {
    {"double-free", double_free},
    {"double-free-after-another", double_free_after_another},
    {"double-free-mark-overwritten", double_free_mark_overwritten},
    {"double-free-other-thread", double_free_other_thread},
    {"double-free-large", double_free_large},
    {"interior-free-small", interior_free_small},
    {"interior-free-large", interior_free_large},
    {"foreign-free", foreign_free},
    {"link-overwritten-blindly", overwrite_blindly},
    {"link-overwritten-after-leak", overwrite_after_leak},
    {"key-by-uninitialised-read", key_by_uninitialised_read},
    {"overflow-into-neighbour", overflow},
    {"read-after-free", read_after_free},
    {"write-after-free", write_after_free},
    {"wrong-free-sized", wrong_free_sized},
};

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size = strtoul(argv[2], NULL, 10);
    variant = atoi(argv[3]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            end("silent", "");
        }
    return 2;
}
