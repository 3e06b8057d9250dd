/* What the parts of the churn share: the blocks that live, the work on them, and how a step fails. */
#ifndef CHURN_H
#define CHURN_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds that a step or a child may take, on a busy machine. */
enum { STEP_S = 60, CHILD_S = 40 };

/* Ends the process with a line: nothing here allocates, for it may be called where malloc hangs. */
__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...);

/* Replaces `count` blocks of the table at random, whoever made them, by new ones; checks what they held. */
void work(unsigned *random, int count);

/* Allocates, resizes, checks and frees `count` blocks of its own, some large. */
void work_alone(unsigned seed, int count);

/* Runs `what` in a forked child with an alarm, and waits for it: it must exit with 0. */
void in_child(const char *name, void (*what)(void));

/* Waits for a child that must exit with 0. */
void wait_for(pid_t child, const char *name);

/* What a child gives up, each in a child of its own (drops.c). */
void give_up_privileges(void);

static inline unsigned draw(unsigned *random) {
    *random ^= *random << 13, *random ^= *random >> 17, *random ^= *random << 5;
    return *random;
}
#endif
