//! More than one process, more than a few threads, and programs that make it hard.

use crate::support::Bench;
use freehold_trace::{Begin, Event, ProcessId};

const FORK: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  void *mine = malloc(4001), *inherited = malloc(4002), *kept = malloc(4003);
  pid_t child = fork();
  if (child == 0) {
    free(inherited);
    void *own = malloc(4004);
    inherited = realloc(mine, 4005);
    free(inherited);
    free(own);
    _exit(0);
  }
  int status; waitpid(child, &status, 0);
  free(mine); free(inherited); free(kept);
  return WEXITSTATUS(status);
}
"#;

#[test]
fn a_forked_child_frees_what_it_inherited() {
    let recorded = Bench::c(FORK).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    let child = &seen.trace.processes()[1];
    assert_eq!((child.begins, child.parent), (Begin::Fork, Some(ProcessId(0))));
    assert!(child.malloc.ends_with("/libc.so.6"), "it has its parent's: {}", child.malloc);
    assert!(child.inherited_objects >= 3, "{}", child.inherited_objects);
    assert!(child.inherited_bytes >= 4001 + 4002 + 4003);
    assert_eq!(seen.count(1, |event| matches!(event, Event::Inherit { .. })), 2);
    assert_eq!(seen.count(1, |event| matches!(event, Event::UnknownFree)), 0);
    assert_eq!(seen.made_and_freed(1, 4004), (1, 1));
    assert_eq!(seen.count(0, |event| matches!(event, Event::Fork { .. })), 1);
    for size in [4001, 4002, 4003] {
        assert_eq!(seen.made_and_freed(0, size), (1, 1), "the parent's own {size}");
    }
}

/// A fork that no handler is told of.
const RAW_FORK: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  void *p = malloc(4101);
  long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) { free(p); free(malloc(4102)); _exit(0); }
  int status; waitpid(child, &status, 0);
  free(p); free(malloc(4103));
  return WEXITSTATUS(status);
}
"#;

#[test]
fn a_raw_clone_is_a_process_of_its_own() {
    let recorded = Bench::c(RAW_FORK).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    assert_eq!(seen.trace.processes().len(), 2);
    assert_eq!((seen.made_and_freed(0, 4102).0, seen.made_and_freed(1, 4102)), (0, (1, 1)));
    assert_eq!((seen.made_and_freed(0, 4103), seen.made_and_freed(1, 4103).0), ((1, 1), 0));
}

const EXEC: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
  if (argc > 1) { free(malloc(4200 + atoi(argv[1]))); return 0; }
  char *arguments[] = {argv[0], "1", 0};
  int status; pid_t child;
  free(malloc(4210));
  if ((child = vfork()) == 0) { execv(argv[0], arguments); _exit(1); }
  waitpid(child, &status, 0); if (status) return 1;
  arguments[1] = "2";
  if (posix_spawn(&child, argv[0], 0, 0, arguments, environ)) return 2;
  waitpid(child, &status, 0); if (status) return 3;
  arguments[1] = "3";
  if ((child = fork()) == 0) { execv(argv[0], arguments); _exit(1); }
  waitpid(child, &status, 0); if (status) return 4;
  arguments[1] = "4";
  execv(argv[0], arguments);
  return 5;
}
"#;

#[test]
fn every_image_is_a_process_of_the_trace() {
    let recorded = Bench::c(EXEC).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    let processes = seen.trace.processes();
    assert_eq!(processes.len(), 5);
    assert_eq!(processes[0].begins, Begin::Root);
    assert_eq!(seen.made_and_freed(0, 4210), (1, 1));
    for (process, size) in [(1, 4201), (2, 4202), (3, 4203), (4, 4204)] {
        assert_eq!(seen.made_and_freed(process, size), (1, 1), "process {process}");
        let info = &processes[process as usize];
        assert_eq!((info.begins, info.parent), (Begin::Exec, Some(ProcessId(0))));
    }
    assert_eq!(processes[4].os_pid, processes[0].os_pid, "the root became another program");
}

const STORM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_barrier_t all;
static void *hold(void *unused) { void *p = malloc(4301); pthread_barrier_wait(&all); free(p); return 0; }
static void *pass(void *unused) { free(malloc(4302)); return 0; }
int main(void) {
  enum { AT_ONCE = 200, IN_TURN = 1000 };
  static pthread_t threads[AT_ONCE];
  pthread_attr_t small; pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536);
  pthread_barrier_init(&all, 0, AT_ONCE);
  for (int i = 0; i < AT_ONCE; i++) if (pthread_create(&threads[i], &small, hold, 0)) return 1;
  for (int i = 0; i < AT_ONCE; i++) pthread_join(threads[i], 0);
  for (int i = 0; i < IN_TURN; i++) {
    if (pthread_create(&threads[0], &small, pass, 0)) return 2;
    pthread_join(threads[0], 0);
  }
  return 0;
}
"#;

#[test]
fn a_storm_of_threads_is_recorded_whole() {
    let recorded = Bench::c(STORM).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    assert_eq!(seen.made_and_freed(0, 4301), (200, 200));
    assert_eq!(seen.made_and_freed(0, 4302), (1000, 1000));
    assert_eq!(seen.trace.processes()[0].threads, 1201);
    assert_eq!(seen.count(0, |event| matches!(event, Event::ThreadEnd)), 1200);
}

/// Threads that allocate all the time while others fork.
const FORK_STORM: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int over;
static void *churn(void *unused) { while (!over) free(malloc(4401)); return 0; }
static void *forks(void *unused) {
  for (int i = 0; i < 50; i++) {
    pid_t child = fork();
    if (child == 0) { free(malloc(4402)); _exit(0); }
    int status; waitpid(child, &status, 0);
    if (status) abort();
  }
  return 0;
}
int main(void) {
  pthread_t threads[4];
  pthread_create(&threads[0], 0, churn, 0); pthread_create(&threads[1], 0, churn, 0);
  pthread_create(&threads[2], 0, forks, 0); pthread_create(&threads[3], 0, forks, 0);
  pthread_join(threads[2], 0); pthread_join(threads[3], 0);
  over = 1;
  pthread_join(threads[0], 0); pthread_join(threads[1], 0);
  return 0;
}
"#;

#[test]
fn forks_amid_threads_neither_hang_nor_mix() {
    let recorded = Bench::c(FORK_STORM).record(&[]);
    assert_eq!(recorded.status(), Some(0), "{}", recorded.stderr());
    let seen = recorded.seen();
    assert_eq!(seen.trace.processes().len(), 101);
    for child in 1..=100 {
        assert_eq!(seen.made_and_freed(child, 4402), (1, 1), "child {child}");
    }
    assert_eq!(seen.made_and_freed(0, 4402), (0, 0));
}

/// Closes every descriptor and clears its environment before it goes on.
const BARE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *thread(void *unused) { free(malloc(4503)); return 0; }
int main(void) {
  int first = open("/dev/null", O_RDONLY);
  if (first != 3) return 10 + first;
  for (int fd = 3; fd < 1024; fd++) close(fd);
  clearenv();
  free(malloc(4501));
  pthread_t threads[40];
  for (int i = 0; i < 40; i++) pthread_create(&threads[i], 0, thread, 0);
  for (int i = 0; i < 40; i++) pthread_join(threads[i], 0);
  pid_t child = fork();
  if (child == 0) { free(malloc(4502)); _exit(open("/dev/null", O_RDONLY) != 3); }
  int status; waitpid(child, &status, 0);
  return status != 0;
}
"#;

#[test]
fn a_program_without_descriptors_or_environment_is_recorded_on() {
    let recorded = Bench::c(BARE).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    assert_eq!(seen.made_and_freed(0, 4501), (1, 1));
    assert_eq!(seen.made_and_freed(0, 4503), (40, 40));
    assert_eq!(seen.made_and_freed(1, 4502), (1, 1));
}

#[test]
fn a_program_that_never_allocates_has_an_empty_trace() {
    let recorded = Bench::c("int main(void) { return 0; }").record(&[]);
    recorded.assert_clean();
    assert_eq!(recorded.seen().trace.processes().len(), 1);
    assert!(recorded.seen().requests().is_empty());
}

/// Destructors of thread-specific data, the last round of them among others: the recorder's own has run by then.
const LAST_WORDS: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
static pthread_key_t key;
static void at_end(void *value) {
  intptr_t round = (intptr_t)value;
  void *kept[10];
  for (int i = 0; i < 10; i++) kept[i] = malloc(4301);
  if (round < 4) pthread_setspecific(key, (void *)(round + 1));
  for (int i = 0; i < 10; i++) free(kept[i]);
}
static void *work(void *nothing) { pthread_setspecific(key, (void *)1); free(malloc(4302)); return nothing; }
int main(void) {
  if (pthread_key_create(&key, at_end)) return 1;
  for (int i = 0; i < 200; i++) {
    pthread_t threads[4];
    for (int j = 0; j < 4; j++) if (pthread_create(&threads[j], 0, work, 0)) return 2;
    for (int j = 0; j < 4; j++) pthread_join(threads[j], 0);
  }
  return 0;
}
"#;

#[test]
fn what_a_thread_does_after_its_last_destructor_comes_in_the_order_of_time() {
    let recorded = Bench::c(LAST_WORDS).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    assert_eq!(seen.made_and_freed(0, 4301), (4 * 10 * 800, 4 * 10 * 800));
    assert_eq!(seen.count(0, |event| matches!(event, Event::UnknownFree)), 0);
}
