/* Freehold: malloc and its relatives.
 *
 * Programs need no header: the library replaces malloc, free and the rest under their own names. This one declares
 * what <stdlib.h> and <malloc.h> may lack: calls newer than the C library in use.
 *
 *   cc program.c -lfreehold              linked, or
 *   LD_PRELOAD=libfreehold.so ./program  preloaded
 *
 * The environment, ignored in set-user-ID programs:
 *   FREEHOLD_LIMIT=2G       refuse requests once the heap holds so much (default none)
 *   FREEHOLD_PURGE=on|off   give the pages of freed memory back when the program rests (default on)
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C23 7.24.3.4 and 7.24.3.5: free, told the size (and alignment) that was asked for. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

/* POSIX 2024: realloc to count times size bytes; null and ENOMEM if the product overflows. */
void *reallocarray(void *block, size_t count, size_t size);

/* How many bytes the block really has; 0 for null. */
size_t malloc_usable_size(void *block);

/* Gives every page that holds no block back to the system, now; 1 if there was any. The argument is ignored. */
int malloc_trim(size_t pad);

#ifdef __cplusplus
}
#endif

#endif
