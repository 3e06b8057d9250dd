/* What a program gives up, each in a child of its own that has a heap with something to return: users, capabilities, new
 * privileges, system calls, namespaces. Afterwards no thread of the child may hold what was given up, and malloc works. */
#include "churn.h"
#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { NOBODY = 65534 };

/* Much memory, freed: whoever returns it to the system has something to do. */
static void make_garbage(void) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) memset(blocks[i] = malloc(1 << 20), 1, 1 << 20);
    for (int i = 0; i < 64; i++) free(blocks[i]);
}

/* `line` of the status of every thread must say the same as that of the caller. */
static void all_threads_alike(const char *what, const char *line) {
    char mine[200] = "", path[300], text[300];
    DIR *folder = opendir("/proc/self/task");
    if (!folder) fail("%s: no /proc", what);
    for (int turn = 0; turn < 2; turn++, rewinddir(folder)) {
        for (struct dirent *entry; (entry = readdir(folder));) {
            if (entry->d_name[0] == '.' || (atoi(entry->d_name) == gettid()) == turn) continue;
            snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
            FILE *file = fopen(path, "r");
            while (file && fgets(text, sizeof text, file)) {
                if (strncmp(text, line, strlen(line))) continue;
                if (turn == 0) snprintf(mine, sizeof mine, "%.199s", text);
                else if (strcmp(mine, text)) fail("%s: a thread has kept its %s", what, line);
            }
            if (file) fclose(file);
        }
    }
    closedir(folder);
}

static void afterwards(void) {
    make_garbage();
    work_alone(11, 400);
    usleep(20000);
}

static void user(void) {
    make_garbage();
    if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)) fail("setresuid: %s", strerror(errno));
    all_threads_alike("setresuid", "Uid:");
    afterwards();
    all_threads_alike("setresuid, later", "Uid:");
    if (setuid(0) == 0) fail("setuid(0) after setresuid");
}

static void capabilities(void) {
    make_garbage();
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    extern int capset(cap_user_header_t, cap_user_data_t);
    if (capset(&head, none)) fail("capset: %s", strerror(errno));
    all_threads_alike("capset", "CapEff:");
    afterwards();
    all_threads_alike("capset, later", "CapEff:");
}

static void new_privileges(void) {
    make_garbage();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no_new_privs: %s", strerror(errno));
    all_threads_alike("no_new_privs", "NoNewPrivs:");
    afterwards();
}

/* A filter that answers EPERM where a malloc advises, starts a thread, moves pages or asks for a node. */
#define DENY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    DENY(SYS_madvise), DENY(SYS_clone), DENY(SYS_clone3), DENY(SYS_mremap), DENY(SYS_mbind),
    DENY(SYS_get_mempolicy), DENY(SYS_move_pages), DENY(SYS_getrusage), DENY(SYS_prctl), DENY(SYS_membarrier),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void calls(void) {
    make_garbage();
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no_new_privs: %s", strerror(errno));
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) fail("seccomp: %s", strerror(errno));
    all_threads_alike("seccomp", "Seccomp:");
    afterwards();
    all_threads_alike("seccomp, later", "Seccomp:");
}

static void calls_of_all_threads(void) {
    make_garbage();
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no_new_privs: %s", strerror(errno));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) fail("seccomp: %s", strerror(errno));
    all_threads_alike("seccomp, TSYNC", "Seccomp:");
    afterwards();
}

static void namespaces(void) {
    make_garbage();
    /* A machine may forbid it; that there is a thread more must not be the reason. */
    if (unshare(CLONE_NEWUSER) && errno == EINVAL) fail("unshare: %s", strerror(errno));
    afterwards();
}

void give_up_privileges(void) {
    if (geteuid() == 0) {
        in_child("setresuid", user);
        in_child("capset", capabilities);
    }
    in_child("no_new_privs", new_privileges);
    in_child("seccomp", calls);
    in_child("seccomp of all threads", calls_of_all_threads);
    in_child("unshare", namespaces);
}
