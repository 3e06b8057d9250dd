//! Programs that filter their own system calls, as sshd's and others' children do: a call that the recorder makes there must
//! not be what ends them.

use crate::support::Bench;

/// A child sets a filter that kills for a socket and for `getpid`, allocates, and ends. Its parent filters sockets alone, and also starts threads and forks
/// again. With an argument: by `syscall`, as libseccomp does.
const FILTERED: &str = r#"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *works(void *unused) { free(malloc(4702)); return unused; }
static int filter_sockets(int by_syscall, int strict) {
  struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, strict ? __NR_getpid : __NR_socket, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {5, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
  return by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                    : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
int main(int argc, char **argv) {
  int status;
  free(malloc(4701));
  pid_t early = fork();
  if (early == 0) {
    if (filter_sockets(argc > 1, 1)) return 1;
    free(malloc(4705));
    return 0;
  }
  if (waitpid(early, &status, 0) != early || status) return 2;
  if (filter_sockets(argc > 1, 0)) return 3;
  if (syscall(SYS_getppid) != getppid() || syscall(SYS_close, -1) != -1 || errno != EBADF) return 4;
  pthread_t threads[40];
  for (int i = 0; i < 40; i++) if (pthread_create(&threads[i], 0, works, 0)) return 5;
  for (int i = 0; i < 40; i++) pthread_join(threads[i], 0);
  pid_t child = fork();
  if (child == 0) { free(malloc(4703)); return 0; }
  if (waitpid(child, &status, 0) != child || status) return 6;
  free(malloc(4704));
  return 0;
}
"#;

#[test]
fn who_filters_sockets_ends_as_without_us() {
    for arguments in [&[][..], &["by-syscall"]] {
        let bench = Bench::c(FILTERED);
        let recorded = bench.record(arguments);
        // Its own status; ours says that something is missing.
        assert_eq!(recorded.summary("exit_code"), 0, "{arguments:?}: {}", recorded.stderr());
        assert_eq!(recorded.status(), Some(125), "{arguments:?}");
        let seen = recorded.seen();
        for size in [4701, 4704] {
            assert_eq!(seen.made_and_freed(0, size), (1, 1), "{arguments:?}: {size}");
        }
        assert_eq!(seen.made_and_freed(1, 4705), (1, 1), "{arguments:?}: it asked before");
        let said = recorded.summary("notes").to_string();
        assert!(said.contains("1 forked processes are missing"), "{arguments:?}: {said}");
    }
}
