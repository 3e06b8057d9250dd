//! Forks where a lock that fork held would never be given back: in signal handlers, in handlers of `pthread_atfork` that
//! were there before the recorder's, and beside threads that hold a stream.

use crate::support::{Bench, Recorded};
use freehold_trace::{Begin, Event, ProcessId};
use std::process::Command;

/// Records the program with these arguments; one that hangs is ended.
fn record_within_a_minute(bench: &Bench, arguments: &[&str]) -> Recorded {
    let mut limited = Command::new("timeout");
    limited.args(["-k", "1", "60", env!("CARGO_BIN_EXE_freehold"), "record", "--json", "-o"]);
    limited.arg(bench.trace_path()).arg("--").arg(&bench.program).args(arguments);
    let output = limited.env_remove("LD_PRELOAD").output().unwrap();
    assert_ne!(output.status.code(), Some(124), "the program hangs");
    bench.recorded(output)
}

/// A timer goes off while the program forks, earlier or later from one fork to the next. glibc's own fork and malloc
/// take no lock in a program of one thread.
const HANDLER: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int handled, wrong;
static void handle(int signal) {
  pid_t child = fork();
  if (child == 0) { free(malloc(4601)); _exit(0); }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status) wrong = 1;
  handled++;
}
int main(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  void *inherited = malloc(4603);
  int forks = 0;
  for (; forks < 2000 && handled < 150; forks++) {
    struct itimerval soon = {.it_value = {.tv_usec = 1 + forks * 7 % 400}};
    setitimer(ITIMER_REAL, &soon, 0);
    pid_t child = fork();
    if (child == 0) { free(malloc(4602)); free(inherited); _exit(0); }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) return 1;
  }
  struct itimerval never = {{0}};
  setitimer(ITIMER_REAL, &never, 0);
  free(inherited);
  return wrong ? 2 : handled == 0 ? 3 : 0;
}
"#;

#[test]
fn a_signal_handler_that_forks_amid_a_fork_neither_hangs_nor_mixes() {
    let recorded = record_within_a_minute(&Bench::c(HANDLER), &[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    let processes = seen.trace.processes();
    assert!(processes.len() > 10, "{}", processes.len());
    let (mut handlers, mut plain) = (0, 0);
    for child in &processes[1..] {
        assert_eq!((child.begins, child.parent), (Begin::Fork, Some(ProcessId(0))), "{child:?}");
        let of = |size| seen.made_and_freed(child.id.0, size);
        match (of(4601), of(4602)) {
            ((1, 1), (0, 0)) => handlers += 1,
            ((0, 0), (1, 1)) => plain += 1,
            other => panic!("{child:?} made and freed {other:?}"),
        }
        assert_eq!(seen.count(child.id.0, |event| matches!(event, Event::UnknownFree)), 0);
        let inherits = seen.count(child.id.0, |event| matches!(event, Event::Inherit { .. }));
        assert_eq!(inherits, of(4602).0, "what was freed is inherited: {child:?}");
    }
    assert!(handlers > 0 && plain > 0, "{handlers} forks of the handler, {plain} of the program");
    let forks = seen.count(0, |event| matches!(event, Event::Fork { .. }));
    assert_eq!(forks, handlers + plain);
    assert_eq!(seen.made_and_freed(0, 4603), (1, 1));
}

/// Returns from the handler in the child, which goes on where the parent was interrupted: between an allocation and its
/// free, or within one of the recorder's hooks.
const RETURNS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static pid_t root;
static volatile int handled, wrong;
static void handle(int signal) {
  if (getpid() != root) return;
  pid_t child = fork();
  if (child == 0) return;
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status) wrong = 1;
  handled++;
}
int main(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  root = getpid();
  for (int round = 0; handled < 60 && !wrong; round++) {
    struct itimerval soon = {.it_value = {.tv_usec = 1 + round * 13 % 300}};
    int before = handled;
    setitimer(ITIMER_REAL, &soon, 0);
    for (long i = 0; handled == before; i++) {
      free(malloc(4611));
      if (getpid() != root) { free(malloc(4612)); _exit(0); }
    }
  }
  return wrong;
}
"#;

#[test]
fn a_child_that_returns_from_the_handler_it_was_forked_in_lives() {
    let recorded = record_within_a_minute(&Bench::c(RETURNS), &[]);
    assert_eq!(recorded.status(), Some(0), "{}", recorded.stderr());
    let seen = recorded.seen();
    assert_eq!(seen.trace.processes().len(), 61);
    for child in 1..=60 {
        assert_eq!(seen.made_and_freed(child, 4612), (1, 1), "child {child}");
    }
}

/// Interrupts a thread that waits for room in its first ring: the recorder is stopped meanwhile. The child of the handler
/// returns into that wait.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static pid_t recorder, process;
static volatile int wrong, handled;
static void wait_for(pid_t child) {
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status) wrong = 1;
}
static void handle(int signal) {
  process = getpid();
  pid_t child = fork();
  if (child == 0) return;
  kill(recorder, SIGCONT);
  wait_for(child);
  handled = 1;
}
static void fill(void) {
  struct itimerval soon = {.it_value = {.tv_usec = 30000}};
  free(malloc(4613));
  kill(recorder, SIGSTOP);
  setitimer(ITIMER_REAL, &soon, 0);
  while (!handled) {
    free(malloc(4611));
    if (process && process != getpid()) { free(malloc(4612)); _exit(0); }
  }
  _exit(wrong);
}
int main(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  recorder = getppid();
  for (int round = 0; round < 10; round++) {
    pid_t child = fork();
    if (child == 0) fill();
    wait_for(child);
  }
  return wrong;
}
"#;

#[test]
fn a_child_that_returns_into_a_wait_for_room_does_not_wait() {
    let recorded = record_within_a_minute(&Bench::c(WAITS), &[]);
    assert_eq!(recorded.status(), Some(0), "{}", recorded.stderr());
    let seen = recorded.seen();
    let processes = seen.trace.processes();
    assert_eq!(processes.len(), 21);
    let counts = |size| {
        processes.iter().filter(|process| seen.made_and_freed(process.id.0, size) == (1, 1)).count()
    };
    assert_eq!((counts(4612), counts(4613)), (10, 10));
}

/// Handlers of fork that were registered before any library could, and that allocate; the first allocation of the thread
/// that forks is theirs.
const EARLY_HANDLERS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *given, *taken;
static void before(void) { given = malloc(4621); free(taken); taken = 0; }
static void in_parent(void) { free(malloc(4622)); free(given); given = 0; }
static void in_child(void) { free(malloc(4623)); free(given); given = 0; }
static void early(int argc, char **argv, char **environment) {
  pthread_atfork(before, in_parent, in_child);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = early;
static void *forks(void *unused) {
  pid_t child = fork();
  if (child == 0) { free(malloc(4624)); _exit(0); }
  int status;
  waitpid(child, &status, 0);
  return (void *)(long)status;
}
int main(void) {
  for (int i = 0; i < 50; i++) {
    taken = malloc(4625);
    pthread_t thread;
    void *status;
    if (pthread_create(&thread, 0, forks, 0)) return 1;
    pthread_join(thread, &status);
    if (status) return 2;
  }
  return 0;
}
"#;

#[test]
fn handlers_of_fork_that_allocate_before_ours_are_recorded_in_the_right_process() {
    let recorded = record_within_a_minute(&Bench::c(EARLY_HANDLERS), &[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    assert_eq!(seen.trace.processes().len(), 51, "each child is one process");
    for size in [4621, 4622, 4625] {
        assert_eq!(seen.made_and_freed(0, size), (50, 50), "{size}");
    }
    for child in &seen.trace.processes()[1..] {
        assert_eq!((child.begins, child.parent), (Begin::Fork, Some(ProcessId(0))));
        for size in [4623, 4624] {
            assert_eq!(seen.made_and_freed(child.id.0, size), (1, 1), "{size} of {child:?}");
        }
        let counts = |wanted: fn(&Event) -> bool| seen.count(child.id.0, wanted);
        assert_eq!(counts(|event| matches!(event, Event::Inherit { .. })), 1, "{child:?}");
        assert_eq!(counts(|event| matches!(event, Event::UnknownFree)), 0, "{child:?}");
    }
}

/// One thread forks, one flushes all streams, and threads that have no ring yet allocate while they hold a stream: fork
/// waits for the list of streams, the flush for the stream, its holder for the recorder.
const STREAMS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int over;
static FILE *stream;
static void *flushes(void *unused) { while (!over) fflush(0); return 0; }
static void *reads(void *unused) {
  for (int i = 0; i < 8; i++) {
    char *line = 0; size_t room = 0;
    if (getline(&line, &room, stream) < 0) rewind(stream);
    free(line);
  }
  return 0;
}
static void *crowds(void *unused) {
  while (!over) {
    pthread_t threads[12];
    for (int i = 0; i < 12; i++) if (pthread_create(&threads[i], 0, reads, 0)) abort();
    for (int i = 0; i < 12; i++) pthread_join(threads[i], 0);
  }
  return 0;
}
int main(int argc, char **argv) {
  stream = tmpfile();
  for (int i = 0; i < 100; i++) fputs("a line that getline has to make room for\n", stream);
  rewind(stream);
  pthread_t threads[4];
  pthread_create(&threads[0], 0, flushes, 0);
  for (int i = 1; i < 4; i++) pthread_create(&threads[i], 0, crowds, 0);
  for (int i = 0; i < 100; i++) {
    pid_t child = fork();
    if (child == 0) { free(malloc(4631)); _exit(0); }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) abort();
  }
  over = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;

#[test]
fn forks_beside_threads_that_hold_streams_do_not_hang() {
    let recorded = record_within_a_minute(&Bench::c(STREAMS), &[]);
    assert_eq!(recorded.status(), Some(0), "{}", recorded.stderr());
    let seen = recorded.seen();
    assert_eq!(seen.trace.processes().len(), 101);
    for child in 1..=100 {
        assert_eq!(seen.made_and_freed(child, 4631), (1, 1), "child {child}");
    }
}
