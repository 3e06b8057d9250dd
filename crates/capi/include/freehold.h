/* Freehold's malloc, for C and C++.
 *
 * Programs need no header: the library replaces malloc, free and the rest under their own names. This one declares
 * what <stdlib.h> and <malloc.h> may lack, and what is Freehold's own: heaps, statistics, the profile.
 *
 *   cc program.c $(pkg-config --cflags --libs freehold)   linked, or
 *   LD_PRELOAD=libfreehold.so.1 ./program                 preloaded
 *
 * The environment, ignored in set-user-ID programs:
 *   FREEHOLD_LIMIT=2G|auto      refuse requests once the heap holds so much; or follow the limits of the container, and
 *                               give free memory back at once where little is left (default none)
 *   FREEHOLD_NODES=PATH         where memory comes from on machines with several, default local>shared>search: the
 *                               thread's node, nodes without processors, the least used other; off: the system's choice
 *   FREEHOLD_PROFILE=FILE       write a sampled heap profile for pprof at the end; %p is the process
 *   FREEHOLD_PROFILE_RATE=2M    one sample in so many bytes, on average
 *   FREEHOLD_PURGE=on|off       give the pages of freed memory back when the program rests (default on)
 *   FREEHOLD_REPORT=FILE        write statistics at the end: .json, .xml, .om, else text; %p is the process
 *   FREEHOLD_SECURE=on|off      check frees at once, wipe and quarantine blocks, fence large ones (default off)
 *   FREEHOLD_STATS=on|off       count every call exactly (default off)
 *   FREEHOLD_THP=dense|system|always|never   transparent huge pages: where the heap is large and dense (default), as
 *                               the system has it, everywhere, nowhere
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stddef.h>
#include <stdint.h>

/* As <stdlib.h> and <malloc.h> declare theirs. */
#ifndef __cplusplus
#define FREEHOLD_NOTHROW
#elif __cplusplus >= 201103L
#define FREEHOLD_NOTHROW noexcept
#else
#define FREEHOLD_NOTHROW throw()
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* C23 7.24.3.4 and 7.24.3.5: free, told the size (and alignment) that was asked for. */
void free_sized(void *block, size_t size) FREEHOLD_NOTHROW;
void free_aligned_sized(void *block, size_t alignment, size_t size) FREEHOLD_NOTHROW;

/* POSIX 2024: realloc to count times size bytes; null and ENOMEM if the product overflows. */
void *reallocarray(void *block, size_t count, size_t size) FREEHOLD_NOTHROW;

/* How many bytes the block really has; 0 for null. */
size_t malloc_usable_size(void *block) FREEHOLD_NOTHROW;

/* Gives every page that holds no block back to the system, now; 1 if there was any. The argument is ignored. */
int malloc_trim(size_t pad) FREEHOLD_NOTHROW;

/* Heaps: memory of one purpose, with a limit and figures of its own, that can be destroyed at once.
 * Any thread may use any heap; its blocks go back to the heap they are of, not to free(). */
typedef struct freehold_heap freehold_heap;

/* A heap that may hold at most limit bytes (0: no limit), bookkeeping included. The name, which may be null, is what
 * statistics call it; its first 31 bytes count. Null and ENOMEM when memory is short. */
freehold_heap *freehold_heap_create(size_t limit, const char *name);

/* Ends the heap and every block in it, in a few system calls. Null is ignored. */
void freehold_heap_destroy(freehold_heap *heap);

/* As malloc, calloc, aligned_alloc, realloc, free and malloc_usable_size: null and ENOMEM beyond the limit. */
void *freehold_heap_malloc(freehold_heap *heap, size_t size);
void *freehold_heap_calloc(freehold_heap *heap, size_t count, size_t size);
void *freehold_heap_aligned_alloc(freehold_heap *heap, size_t alignment, size_t size);
void *freehold_heap_realloc(freehold_heap *heap, void *block, size_t size);
void freehold_heap_free(freehold_heap *heap, void *block);
size_t freehold_heap_usable_size(freehold_heap *heap, void *block);

/* Calls visit with every block in use, in no particular order; it must not use the heap. */
void freehold_heap_walk(freehold_heap *heap, void (*visit)(void *block, size_t size, void *argument), void *argument);

/* What a heap holds; bytes, but for blocks. */
struct freehold_heap_stats {
    uint64_t in_use;    /* blocks in use, as large as they are, not as was asked */
    uint64_t blocks;    /* how many */
    uint64_t cached;    /* free blocks in caches */
    uint64_t free;      /* free blocks of slabs */
    uint64_t held;      /* slabs, large blocks and caches, whole units of 64 KiB */
    uint64_t dirty;     /* free units that may be resident */
    uint64_t committed; /* address space in use */
    uint64_t limit;     /* 0: none */
};

/* Fills size bytes of stats, which is sizeof(struct freehold_heap_stats): later versions may know more. */
void freehold_heap_get_stats(freehold_heap *heap, struct freehold_heap_stats *stats, size_t size);

/* Binds a heap to a NUMA node, or with -1 to none: all its memory comes from there, and what it has elsewhere moves there,
 * at once and while it is used. When the node is full, requests are refused. 0; 1 when something could not be moved (call
 * again); -1 and errno: ENOSYS where memory is not placed (one node, FREEHOLD_NODES=off, numactl), EINVAL for no node. */
int freehold_heap_bind(freehold_heap *heap, int node);

/* Moves all that the program has on a NUMA node to its other nodes, while it runs, and takes no memory there until
 * freehold_readmit: all heaps, then stacks, data and mappings that have no memory policy; at most rate bytes a second and
 * most bytes in this call (0: as fast as it goes, all). Blocks stay at their addresses. Heaps bound to the node keep what
 * they have. 0: a whole look found nothing of the heaps there any more, and the rest was gone through; 1: there is more,
 * call again; -1 and errno as above, and EBUSY when there is no other node. */
struct freehold_vacated {
    uint64_t moved; /* bytes moved by this call */
    uint64_t left;  /* bytes of heaps seen there last, and not moved: held by the kernel, or no room elsewhere */
};
int freehold_vacate(int node, size_t rate, size_t most, struct freehold_vacated *result);
int freehold_readmit(int node);

/* Moving blocks to where they keep less memory, for programs that can (databases in memory): a slab of 64 KiB goes back to the system
 * page by page only where no block lies. A block is worth moving if target >= used: then get another by
 * freehold_malloc_packed, copy, and free the old one by freehold_free_packed; both pass over the thread's free blocks. Each move
 * makes slabs more unequal, so moving comes to an end. O(1). */
struct freehold_utilization {
    uint64_t size;   /* bytes of the block */
    uint64_t blocks; /* blocks of its slab; 1 for a block above 32 KiB */
    uint64_t used;   /* how many of them are used, or wait in a thread's cache */
    uint64_t target; /* how many are used in the slab that freehold_malloc_packed takes a block of this size from; 0: the block
                        stays (it is large, another thread's, no other slab has room, or the process is hardened or profiled) */
};

/* Fills size bytes of result, which is sizeof(struct freehold_utilization). 0; -1 and EINVAL for null. */
int freehold_utilization(const void *block, struct freehold_utilization *result, size_t size);
void *freehold_malloc_packed(size_t size);
void freehold_free_packed(void *block);

/* Statistics of all heaps of the process, to a file descriptor; 0, or -1. */
enum { FREEHOLD_TEXT, FREEHOLD_JSON, FREEHOLD_OPENMETRICS, FREEHOLD_XML };
int freehold_stats_write(int descriptor, int format);

/* The heap profile so far, as a new file; 0, or -1: ENODATA if the program does not run with FREEHOLD_PROFILE. */
int freehold_profile_write(const char *path);

/* Heaps in bounded time, on memory of the caller's. No call loops over blocks, calls the system or waits; instructions
 * and memory are bounded as bench/NOTES.md, "Real time", says. One thread owns a heap; any thread may send blocks back.
 *
 *   freehold_fast    DmRT: 8 bytes a block, malloc and free in at most 100 instructions
 *   freehold_strict  powers of two, lowest aligned place: at most 200 instructions, and a proved bound on memory
 */
typedef struct freehold_fast freehold_fast;
typedef struct freehold_strict freehold_strict;

/* What free and its kin answer. Other than 0: the pointer is refused, and the heap is as it was. */
enum {
    FREEHOLD_DONE = 0,
    FREEHOLD_FOREIGN = 1,    /* outside of the heap, or where no block begins */
    FREEHOLD_NOT_IN_USE = 2, /* freed already, or inside a block */
    FREEHOLD_SENT = 3,       /* freed by another thread already */
    FREEHOLD_NO_ROOM = 4     /* resize only: what lies behind the block does not allow it */
};

/* The whole of size bytes at memory, a multiple of 16, becomes a heap; the handle lies inside. smallest: the
 * smallest block, a power of two from 16 to 65536. Null: too short, too long or misaligned (errno EINVAL). */
freehold_fast *freehold_fast_create(void *memory, size_t size);
freehold_strict *freehold_strict_create(void *memory, size_t size, size_t smallest);

/* How much memory is enough for a strict heap: live bytes in use at most (each block counted as at least smallest),
 * none longer than longest, whatever the order of calls. 0: more than a heap can have. */
size_t freehold_strict_enough(size_t live, size_t longest, size_t smallest);

/* size bytes of new memory, faulted in, and locked if lock is not 0. Never given back. Null: ENOMEM, or EPERM when
 * RLIMIT_MEMLOCK does not allow so much. */
void *freehold_reserve(size_t size, int lock);

/* malloc: null when no block is found; errno is left alone. 0 bytes are a block of their own. Takes in one block that
 * was sent. Multiples of 16 (strict: of the block's own length, as far as the memory is). */
void *freehold_fast_malloc(freehold_fast *heap, size_t size);
void *freehold_strict_malloc(freehold_strict *heap, size_t size);
void *freehold_fast_aligned_alloc(freehold_fast *heap, size_t alignment, size_t size);
void *freehold_strict_aligned_alloc(freehold_strict *heap, size_t alignment, size_t size);

/* Frees a block; null is refused as FREEHOLD_FOREIGN. */
int freehold_fast_free(freehold_fast *heap, void *block);
int freehold_strict_free(freehold_strict *heap, void *block);

/* From any thread, wait-free: the block goes back to its heap, which takes it in later. */
int freehold_fast_send(freehold_fast *heap, void *block);
int freehold_strict_send(freehold_strict *heap, void *block);

/* The owner takes in one block that was sent; 1 if there was any. For idle time, and when malloc found no room. */
int freehold_fast_take_in(freehold_fast *heap);
int freehold_strict_take_in(freehold_strict *heap);

/* Makes the block size bytes long where it lies. */
int freehold_fast_resize(freehold_fast *heap, void *block, size_t size);
int freehold_strict_resize(freehold_strict *heap, void *block, size_t size);

/* How many bytes the block holds; 0 for what is no block. */
size_t freehold_fast_usable_size(freehold_fast *heap, void *block);
size_t freehold_strict_usable_size(freehold_strict *heap, void *block);

/* Walks every structure, in unbounded time: 0 if all is well. */
int freehold_fast_check(freehold_fast *heap);
int freehold_strict_check(freehold_strict *heap);

#ifdef __cplusplus
}
#endif

#endif
