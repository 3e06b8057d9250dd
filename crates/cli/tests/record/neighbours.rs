//! What may lie beside and beneath the recorder: other allocators, a thousand threads, a C++ library
//! loaded late; and what its own library must not hold.

use crate::support::Bench;
use freehold_trace::{Api, Event};
use std::process::Command;

/// Prints the recorder's library as this process has it mapped, and makes a few objects.
const WORKING: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  void *objects[100];
  for (int i = 0; i < 100; i++) objects[i] = malloc(5301);
  for (int i = 0; i < 100; i++) objects[i] = realloc(objects[i], 5401);
  for (int i = 0; i < 100; i++) free(objects[i]);
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps))
    if (strchr(line, '/')) fputs(strchr(line, '/'), stdout);
  return 0;
}
"#;

fn stays_in_use(library: &str) {
    let bench = Bench::c(WORKING);
    let stem = library.split('.').next().unwrap();
    let alone = Command::new(&bench.program).env("LD_PRELOAD", library).output().unwrap();
    if !String::from_utf8_lossy(&alone.stdout).contains(stem) {
        return freehold_testkit::skip(&format!("{library} is not installed"));
    }
    let output = bench.command(&[]).env("LD_PRELOAD", library).output().unwrap();
    let recorded = bench.recorded(output);
    recorded.assert_clean();
    assert!(recorded.stdout().contains(stem), "{library} is beneath");
    let seen = recorded.seen();
    let malloc = &seen.trace.processes()[0].malloc;
    assert!(malloc.contains(stem), "{library} is known to be beneath: {malloc}");
    let made = seen.requests().iter().filter(|request| request.size == 5301).count();
    assert_eq!(made, 100, "{library}");
    let is_resized =
        |event: &Event| matches!(event, Event::Realloc { request, .. } if request.size == 5401);
    assert_eq!(seen.count(0, is_resized), 100, "{library}");
}

pub fn a_preloaded_jemalloc_stays_in_use() {
    stays_in_use("libjemalloc.so.2");
}

pub fn a_preloaded_mimalloc_stays_in_use() {
    stays_in_use("libmimalloc.so.2");
}

pub fn a_preloaded_tcmalloc_stays_in_use() {
    stays_in_use("libtcmalloc_minimal.so.4");
}

/// A program with an allocator of its own, as GNU Common Lisp is, which is not ready for `realloc` before `main`.
const OWN: &str = r#"
#include <stdlib.h>
#include <string.h>
static char room[1 << 20];
static size_t taken;
static int ready;
void *malloc(size_t size) {
  taken = (taken + 15) & ~15ul;
  taken += size;
  return taken <= sizeof room ? room + taken - size : 0;
}
void free(void *object) { (void)object; }
void *calloc(size_t count, size_t size) {
  void *object = malloc(count * size);
  return object ? memset(object, 0, count * size) : 0;
}
void *realloc(void *object, size_t size) {
  if (!ready) abort();
  void *longer = malloc(size);
  return longer && object ? memmove(longer, object, size) : longer;
}
int main(void) {
  ready = 1;
  return realloc(malloc(10), 20) == 0;
}
"#;

pub fn an_allocator_of_the_program_s_own_need_not_be_ready_before_main() {
    Bench::c(OWN).record(&[]).assert_clean();
}

pub fn no_hook_can_panic() {
    let bench = Bench::c(WORKING);
    let recorded = bench.record(&[]);
    let paths = recorded.stdout();
    let library = paths.lines().find(|path| path.contains("libfreehold_record")).expect("mapped");
    let bytes = std::fs::read(library).unwrap();
    let holds = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(holds("freehold_record_thread"), "its symbols are there, or this test proves nothing");
    for word in ["rust_begin_unwind", "4core9panicking", "4core3fmt", "_Unwind_Resume"] {
        assert!(!holds(word), "{library} refers to {word}");
    }
}

const THOUSAND: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_barrier_t all;
static void *one(void *unused) {
  void *volatile object = malloc(5501);
  pthread_barrier_wait(&all);
  free(object);
  return unused;
}
int main(void) {
  static pthread_t ids[1000];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_barrier_init(&all, 0, 1000);
  for (int i = 0; i < 1000; i++) if (pthread_create(&ids[i], &small, one, 0)) return 1;
  for (int i = 0; i < 1000; i++) pthread_join(ids[i], 0);
  return 0;
}
"#;

pub fn a_thousand_threads_alive_at_once_are_all_recorded() {
    let bench = Bench::c(THOUSAND);
    let recorded = bench.record(&[]);
    recorded.assert_clean();
    assert_eq!(recorded.seen().made_and_freed(0, 5501), (1000, 1000));
    assert_eq!(recorded.summary("threads"), 1001);
}

const LATE: &str = r#"
#include <new>
extern "C" int late() {
  ::operator delete(::operator new(5601));
  ::operator delete(::operator new(5602, std::align_val_t(64)), std::align_val_t(64));
  try { ::operator new(static_cast<unsigned long>(-1) / 2); } catch (const std::bad_alloc &) { return 7; }
  return 1;
}
"#;

/// A C program: the C++ library is not there when the recorder begins.
const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*late)(void) = library ? (int (*)(void))dlsym(library, "late") : 0;
  return late && late() == 7 ? 0 : 1;
}
"#;

pub fn a_cxx_library_loaded_late_is_recorded_as_what_it_wrote() {
    let bench = Bench::c(LOADER);
    let (source, library) =
        (bench.folder.path().join("late.cc"), bench.folder.path().join("late.so"));
    std::fs::write(&source, LATE).unwrap();
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O1", "-fno-builtin", "-w", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return freehold_testkit::skip("no C++ compiler named c++ (apt install g++)");
    }
    let recorded = bench.record(&[library.to_str().unwrap()]);
    recorded.assert_clean();
    let seen = recorded.seen();
    for size in [5601, 5602] {
        assert_eq!(seen.made_and_freed(0, size), (1, 1), "size {size}");
    }
    assert!(seen.requests().iter().any(|r| (r.size, r.api) == (5601, Api::New)));
}
