// Runs a program under a filter that refuses (EPERM) what containers refuse: mbind, get_mempolicy, set_mempolicy.
// move_pages stays, for the program to look.
#include "numa.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define REFUSE(call)                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),  \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int argc, char **argv) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      REFUSE(mbind),
      REFUSE(get_mempolicy),
      REFUSE(set_mempolicy),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
  CHECK(argc > 1);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
  execv(argv[1], argv + 1);
  CHECK(!"it runs");
}
