//! The end-to-end check: a program with threads that keeps its own tally, and the trace of it, must
//! tell the same.

use crate::support::{Bench, Recorded, freehold};
use freehold_trace::{Api, Event};
use std::collections::HashMap;

/// Sizes of the program's own objects are 17 modulo 64: nothing in the C library asks for such.
fn is_own(size: u64) -> bool {
    size % 64 == 17
}

/// Four threads, one lock around each call and its tally: the order of calls is known exactly.
const LOCKED: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 4, STEPS = 30000, OBJECTS = 500 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { void *at; size_t size; } objects[OBJECTS];
static long made, freed, resized, step; static size_t live, peak; static unsigned long long curve;
static void tally(void) {
  if (live > peak) peak = live;
  if (++step % 1000 == 0) curve = curve * 31 + live;
}
static unsigned next(unsigned *state) { *state = *state * 1664525u + 1013904223u; return *state >> 8; }
static void *work(void *seed) {
  unsigned state = (unsigned)(size_t)seed;
  for (int i = 0; i < STEPS; i++) {
    pthread_mutex_lock(&lock);
    unsigned at = next(&state) % OBJECTS;
    size_t size = 17 + 64 * (next(&state) % 100);
    if (!objects[at].at) {
      objects[at].at = malloc(size); live += size; made++;
    } else if (next(&state) % 4 == 0) {
      objects[at].at = realloc(objects[at].at, size); live += size - objects[at].size; resized++;
    } else {
      free(objects[at].at); objects[at].at = 0; live -= objects[at].size; freed++;
    }
    objects[at].size = size;
    tally();
    pthread_mutex_unlock(&lock);
  }
  return 0;
}
int main(void) {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  printf("%ld %ld %ld %zu %zu %llu\n", made, freed, resized, peak, live, curve);
}
"#;

/// The same tally, kept over the trace.
fn tally(recorded: &Recorded) -> String {
    let (mut made, mut freed, mut resized, mut step) = (0, 0, 0, 0);
    let (mut live, mut peak, mut curve) = (0, 0, 0u64);
    let mut sizes = HashMap::new();
    for record in &recorded.seen().records {
        let change = match record.event {
            Event::Alloc { object, request } => {
                sizes.insert(object, request.size);
                made += i32::from(is_own(request.size));
                is_own(request.size).then_some(request.size as i64)
            }
            Event::Free { object, .. } => {
                let size = sizes.remove(&object).unwrap();
                freed += i32::from(is_own(size));
                is_own(size).then_some(-(size as i64))
            }
            Event::Realloc { object, request, .. } => {
                let old = sizes.insert(object, request.size).unwrap();
                resized += i32::from(is_own(old));
                is_own(old).then_some(request.size as i64 - old as i64)
            }
            _ => None,
        };
        let Some(change) = change else { continue };
        live += change;
        peak = peak.max(live);
        step += 1;
        if step % 1000 == 0 {
            curve = curve.wrapping_mul(31).wrapping_add(live as u64);
        }
    }
    format!("{made} {freed} {resized} {peak} {live} {curve}\n")
}

#[test]
fn counts_peak_and_curve_are_those_of_the_programs_own_tally() {
    let recorded = Bench::c(LOCKED).record(&[]);
    recorded.assert_clean();
    assert_eq!(tally(&recorded), recorded.stdout());
    let threads = recorded.seen().trace.processes()[0].threads;
    assert_eq!(threads, 5);
}

/// As above, and every call of malloc, realloc and free in the process is one of these: nothing is
/// printed through stdio. Only `pthread_create` asks for memory of its own, by calloc, before.
const ALONE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { THREADS = 4, STEPS = 20000, OBJECTS = 300 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static struct { void *at; size_t size; } objects[OBJECTS];
static long made, freed, resized; static size_t live, peak, asked;
static unsigned next(unsigned *state) { *state = *state * 1664525u + 1013904223u; return *state >> 8; }
static void *work(void *seed) {
  unsigned state = (unsigned)(size_t)seed;
  pthread_barrier_wait(&all);
  for (int i = 0; i < STEPS; i++) {
    pthread_mutex_lock(&lock);
    unsigned at = next(&state) % OBJECTS;
    size_t size = 1 + next(&state) % 5000, old = objects[at].size;
    if (!objects[at].at) {
      objects[at].at = malloc(size); live += size; asked += size; made++;
    } else if (next(&state) % 3 == 0) {
      objects[at].at = realloc(objects[at].at, size); live += size - old; resized++;
      if (size > old) asked += size - old;
    } else {
      free(objects[at].at); objects[at].at = 0; live -= old; freed++;
    }
    objects[at].size = size;
    if (live > peak) peak = live;
    pthread_mutex_unlock(&lock);
  }
  return 0;
}
int main(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&all, 0, THREADS);
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  char line[200];
  int length = snprintf(line, sizeof line, "%ld %ld %ld %zu %zu %zu", made, freed, resized, asked, peak, live);
  return write(1, line, length) != length;
}
"#;

#[test]
fn info_tells_what_the_program_itself_counted() {
    let bench = Bench::c(ALONE);
    let recorded = bench.record(&[]);
    recorded.assert_clean();
    let own: Vec<u64> =
        recorded.stdout().split(' ').map(|number| number.parse().unwrap()).collect();
    let info = freehold().args(["info", "--json"]).arg(bench.trace_path()).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let total = &info["total"];
    let number = |pointer: &str| total.pointer(pointer).and_then(|n| n.as_u64()).unwrap();
    let calls = ["malloc", "frees", "reallocs"].map(|call| number(&format!("/calls/{call}")));
    assert_eq!(calls, [own[0], own[1], own[2]]);
    // What pthread_create took, before the first step and for ever.
    let others = number("/allocated_bytes") - own[3];
    assert!(others > 0 && number("/calls/calloc") <= 8, "{others} bytes");
    assert_eq!(number("/peak/bytes"), own[4] + others);
    assert_eq!(number("/end_bytes"), own[5] + others);
    let curve = total["live_over_seconds"].as_array().unwrap();
    let highest = curve.iter().filter_map(|point| point["max_bytes"].as_u64()).max().unwrap();
    assert_eq!(highest, own[4] + others, "the curve keeps its peak");
    assert_eq!(number("/threads"), 5);
}

/// Threads that free each other's objects as fast as they can, without any lock.
const EXCHANGE: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 4, STEPS = 50000, PLACES = 64 };
static _Atomic(void *) places[PLACES];
static atomic_long made, freed;
static void *work(void *seed) {
  unsigned state = (unsigned)(size_t)seed;
  for (int i = 0; i < STEPS; i++) {
    state = state * 1664525u + 1013904223u;
    void *mine = malloc(17 + 64 * (state >> 28));
    void *other = atomic_exchange(&places[(state >> 8) % PLACES], mine);
    if (other) { free(other); atomic_fetch_add(&freed, 1); }
    atomic_fetch_add(&made, 1);
  }
  return 0;
}
int main(void) {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  printf("%ld %ld\n", made, freed);
}
"#;

#[test]
fn frees_by_other_threads_are_matched_without_a_guess() {
    let recorded = Bench::c(EXCHANGE).record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    let own =
        |request: &&freehold_trace::Request| request.api == Api::Malloc && is_own(request.size);
    let made = seen.requests().iter().filter(own).count();
    let mut sizes = HashMap::new();
    let (mut freed, mut remote_frees) = (0, 0);
    for record in &seen.records {
        match record.event {
            Event::Alloc { object, request } => {
                let doubly = sizes.insert((record.process, object), request.size);
                assert_eq!(doubly, None, "an id names one live object");
            }
            Event::Free { object, remote } => {
                let size = sizes.remove(&(record.process, object)).unwrap();
                freed += usize::from(is_own(size));
                remote_frees += usize::from(is_own(size) && remote);
            }
            _ => {}
        }
    }
    assert_eq!(format!("{made} {freed}\n"), recorded.stdout());
    assert!(remote_frees > 0, "threads do free what others made");
}
