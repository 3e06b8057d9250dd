/* step SIZE CALLS WARM
 *
 * Instructions of single calls, by single-stepping (ptrace): a child warms its heap up with WARM random replacements,
 * then makes CALLS calls of malloc(SIZE) and frees the blocks again in order, twice; the second time is counted.
 * After that come CALLS mixed replacements (log-uniform 16 B - 32 KiB), every call counted, for the worst case.
 * A call counts from malloc's or free's first instruction up to and with its `ret`: net of the `call`
 * itself. System calls made inside are counted too.
 */
#include "bench.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *(*Malloc)(size_t);
typedef void (*Free)(void *);

static Malloc the_malloc;
static Free the_free;

static void pause_for_tracer(void) { raise(SIGTRAP); }

static void child(size_t size, uint32_t calls, uint32_t warm) {
    void **blocks = table(calls * sizeof *blocks);
    Slot *slots = table(1000 * sizeof *slots);
    Rng rng = rng_of(1);
    for (uint32_t i = 0; i < warm; i++) {
        Slot *slot = &slots[below(&rng, 1000)];
        slot_clear(slot);
        slot_fill(slot, log_uniform(&rng, 16, 4096));
    }
    for (int turn = 0; turn < 2; turn++) {
        if (turn) pause_for_tracer();
        for (uint32_t i = 0; i < calls; i++) blocks[i] = the_malloc(size);
        for (uint32_t i = 0; i < calls; i++) the_free(blocks[i]);
        if (turn) pause_for_tracer();
    }
    pause_for_tracer();
    for (uint32_t i = 0; i < calls; i++) {
        Slot *slot = &slots[below(&rng, 1000)];
        size_t wanted = log_uniform(&rng, 16, 32768);
        the_free(slot->block);
        *slot = (Slot){the_malloc(wanted), wanted};
    }
    pause_for_tracer();
    _exit(0);
}

/* What the calls of one function cost. */
typedef struct { uint32_t *steps; uint32_t calls, most_syscalls; uint64_t total; } Cost;

static void wait_stop(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) die("the traced child ended early");
    int signal = WSTOPSIG(status);
    if (signal != SIGTRAP) die("the traced child got a signal");
}

static struct user_regs_struct step(pid_t pid) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0)) die("ptrace refuses to step");
    wait_stop(pid);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    return regs;
}

static int at_syscall(pid_t pid, uint64_t rip) {
    return (ptrace(PTRACE_PEEKTEXT, pid, (void *)rip, 0) & 0xFFFF) == 0x050F;
}

/* The call has just been entered; steps to its return. */
static struct user_regs_struct follow(pid_t pid, struct user_regs_struct regs, Cost *cost, uint32_t most) {
    uint64_t stack = regs.rsp, back = (uint64_t)ptrace(PTRACE_PEEKDATA, pid, (void *)stack, 0);
    uint32_t steps = 0, syscalls = 0;
    while (!(regs.rip == back && regs.rsp == stack + 8)) {
        if (steps > 24) syscalls += (uint32_t)at_syscall(pid, regs.rip);
        regs = step(pid);
        steps++;
    }
    if (cost->calls < most) cost->steps[cost->calls++] = steps;
    cost->total += steps;
    if (syscalls > cost->most_syscalls) cost->most_syscalls = syscalls;
    return regs;
}

static void trace(pid_t pid, Cost *mallocs, Cost *frees, uint32_t most) {
    while (mallocs->calls < most || frees->calls < most) {
        struct user_regs_struct regs = step(pid);
        if (regs.rip == (uint64_t)the_malloc) follow(pid, regs, mallocs, most);
        else if (regs.rip == (uint64_t)the_free) follow(pid, regs, frees, most);
    }
    ptrace(PTRACE_CONT, pid, 0, 0);
    wait_stop(pid);
}

static int ascending(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void print(const char *name, Cost *cost, const char *after) {
    qsort(cost->steps, cost->calls, sizeof *cost->steps, ascending);
    printf("\"%s\":{\"calls\":%u,\"min\":%u,\"median\":%u,\"mean\":%.2f,\"p99\":%u,\"max\":%u,\"max_syscalls\":%u}%s", name,
           cost->calls, cost->steps[0], cost->steps[cost->calls / 2], (double)cost->total / cost->calls,
           cost->steps[cost->calls - 1 - cost->calls / 100], cost->steps[cost->calls - 1], cost->most_syscalls, after);
}

static Cost cost_of(uint32_t calls) { return (Cost){table(calls * sizeof(uint32_t)), 0, 0, 0}; }

int main(int argc, char **argv) {
    size_t size = number(argc, argv, 1);
    uint32_t calls = (uint32_t)number(argc, argv, 2), warm = (uint32_t)number(argc, argv, 3);
    the_malloc = (Malloc)dlsym(RTLD_DEFAULT, "malloc");
    the_free = (Free)dlsym(RTLD_DEFAULT, "free");
    if (!the_malloc || !the_free) die("malloc and free are not dynamic symbols");
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((unsigned)sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) die("ptrace is not allowed here");
        child(size, calls, warm);
    }
    Cost small[2] = {cost_of(calls), cost_of(calls)}, mixed[2] = {cost_of(calls), cost_of(calls)};
    wait_stop(pid);
    trace(pid, &small[0], &small[1], calls);
    ptrace(PTRACE_CONT, pid, 0, 0);
    wait_stop(pid);
    trace(pid, &mixed[0], &mixed[1], calls);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    printf("{\"size\":%zu,", size);
    print("malloc", &small[0], ",");
    print("free", &small[1], ",");
    print("mixed_malloc", &mixed[0], ",");
    print("mixed_free", &mixed[1], "}\n");
}
