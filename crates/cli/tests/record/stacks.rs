//! Call stacks: right on every event, whatever a program does with its stacks, and named.

use crate::support::Bench;

/// Frames of many kinds, each of which allocates: 5,000 and up are sizes that tests look for.
const KINDS: &str = r#"
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
static volatile int zero;
static void *volatile keep;
APART static void touch(size_t size) { keep = malloc(size); free(keep); }

/* Recursion, 10,000 deep, with frames of two sizes. */
APART static int deep(int depth) {
  volatile char room[64];
  room[zero] = depth;
  if (depth % 97 == 0) touch(16);
  int below = depth ? deep(depth - 1) : 0;
  return below + room[zero];
}

/* A call in tail position leaves no frame. */
APART static void last(size_t size) { touch(size); touch(size); keep = 0; }
APART static void tail(size_t size) { zero = 0; last(size); }
APART static void before_tail(size_t size) { tail(size); zero = 0; }

/* Frames whose size is known when they run. */
APART static void variable(int size) {
  char *room = alloca(size + 1);
  memset(room, 1, size);
  touch(48);
  char more[room[0] + size];
  more[size] = 0;
  touch(more[size] + 64);
}

/* Signals: on the same stack, on another, in one another, left by a jump. */
static sigjmp_buf out;
APART static void handler(int signal) {
  touch(5001);
  if (signal == SIGUSR1) raise(SIGUSR2);
}
APART static void jumping(int signal) { touch(80); siglongjmp(out, signal); }
static void on(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {0};
  action.sa_handler = handler;
  action.sa_flags = flags | SA_NODEFER;
  sigaction(signal, &action, 0);
}
APART static void signals(void) {
  static char other[1 << 16];
  stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
  sigaltstack(&stack, 0);
  for (int round = 0; round < 50; round++) {
    on(SIGUSR1, handler, round & 1 ? SA_ONSTACK : 0);
    on(SIGUSR2, handler, round & 2 ? SA_ONSTACK : 0);
    raise(SIGUSR1);
    on(SIGSEGV, jumping, SA_ONSTACK);
    if (!sigsetjmp(out, 1)) *(volatile int *)(intptr_t)zero = 1;
    touch(96);
  }
}

/* Coroutines on stacks that come and go. */
static ucontext_t home, away[4];
APART static void worker(int number) {
  for (int turn = 0; turn < 20; turn++) {
    touch(112);
    if (turn & 1) deep(5 + number);
    swapcontext(&away[number], &home);
  }
}
static void coroutines(void) {
  for (int round = 0; round < 6; round++) {
    void *stacks[4];
    for (int n = 0; n < 4; n++) {
      size_t bytes = (16 << 10) << (round & 1);
      stacks[n] = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      getcontext(&away[n]);
      away[n].uc_stack.ss_sp = stacks[n];
      away[n].uc_stack.ss_size = bytes;
      away[n].uc_link = &home;
      makecontext(&away[n], (void (*)(void))worker, 1, n);
    }
    for (int turn = 0; turn < 20; turn++)
      for (int n = 0; n < 4; n++) swapcontext(&home, &away[n]);
    for (int n = 0; n < 4; n++) munmap(stacks[n], (16 << 10) << (round & 1));
  }
}

/* Threads, and a process that is forked off. */
static void *thread(void *number) {
  for (int i = 0; i < 200; i++) deep((intptr_t)number % 7 * 13 + i % 11);
  return 0;
}
APART static void forked(void) {
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (!child) { touch(5002); deep(200); _exit(0); }
    waitpid(child, 0, 0);
  }
}
int compare(const void *a, const void *b) { touch(128); return *(int *)a - *(int *)b; }

int main(void) {
  deep(10000);
  for (int i = 0; i < 100; i++) { before_tail(5003); variable(i * 37); deep(i); }
  signals();
  coroutines();
  pthread_t ids[3];
  for (intptr_t n = 0; n < 3; n++) pthread_create(&ids[n], 0, thread, (void *)n);
  for (int n = 0; n < 3; n++) pthread_join(ids[n], 0);
  forked();
  int numbers[] = {5, 2, 8, 1, 9, 3};
  for (int i = 0; i < 10; i++) qsort(numbers, 6, sizeof(int), compare);
  touch(5004);
  return 0;
}
"#;

#[test]
fn every_stack_is_that_of_a_plain_walk() {
    let bench = Bench::optimised(KINDS, &[]);
    let recorded = bench.record_checked(&[]);
    recorded.assert_clean();
    let compared = recorded.compared();
    let seen = recorded.seen();
    use freehold_trace::Event::{Alloc, Free, Realloc};
    let is_call = |event: &_| matches!(event, Alloc { .. } | Free { .. } | Realloc { .. });
    let calls: usize = (0..4).map(|process| seen.count(process, is_call)).sum();
    assert!(calls > 4_000 && compared >= calls as u64, "{compared} of {calls}");
    let whole = |size: u64| {
        let stacks = seen.stacks_of(size);
        let is_whole = |stack: &Vec<String>| !stack.contains(&"cut".into());
        assert!(!stacks.is_empty() && stacks.iter().all(is_whole), "{size}: {stacks:?}");
        stacks
    };
    // Out of a signal's handler, and of one within another, into what was interrupted.
    for stack in whole(5001) {
        let at = |name: &str| stack.iter().position(|function| function == name);
        assert!(at("handler") < at("signals") && at("signals") < at("main"), "{stack:?}");
        assert!(at("main").is_some(), "{stack:?}");
    }
    // A child's stacks are as whole as its parent's.
    for stack in whole(5002) {
        assert!(stack[..2] == ["touch", "forked"] && stack.contains(&"main".into()), "{stack:?}");
    }
    // Who called in tail position is gone, and nobody stands in for it.
    for stack in whole(5003) {
        assert!(stack[..3] == ["touch", "last", "before_tail"], "{stack:?}");
    }
    assert_eq!(whole(5004)[0][..2], ["touch", "main"]);
}

/// Two libraries, loaded in turn, that are the same but for a name and a size.
const PLUGIN: &str = r#"
#include <stdlib.h>
__attribute__((noinline)) void NAME(void) { void *volatile object = malloc(SIZE); free(object); }
void enter(void) { NAME(); __asm__ volatile("" ::: "memory"); }
"#;
const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  void *first = 0;
  for (int i = 0; i < 20; i++) {
    void *plugin = dlopen(argv[1 + i % 2], RTLD_NOW);
    void (*enter)(void) = (void (*)(void))dlsym(plugin, "enter");
    if (!first) first = enter;
    if (enter != first) return 2; /* not at the same address: nothing is tested */
    enter();
    enter();
    dlclose(plugin);
  }
  return 0;
}
"#;

#[test]
fn a_library_that_took_another_ones_place_is_told_from_it() {
    let bench = Bench::optimised(LOADER, &["-ldl"]);
    let library = |name: &str, size: u32| {
        let file = bench.folder.path().join(format!("{name}.so"));
        let source = bench.folder.path().join(format!("{name}.c"));
        let text = PLUGIN.replace("NAME", name).replace("SIZE", &size.to_string());
        std::fs::write(&source, text).unwrap();
        let mut cc = std::process::Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "-fno-builtin", "-o"]).args([&file, &source]);
        assert!(cc.status().unwrap().success());
        file.to_str().unwrap().to_owned()
    };
    let (one, two) = (library("plugin_one", 6001), library("plugin_two", 6002));
    let recorded = bench.record_checked(&[&one, &two]);
    assert_ne!(recorded.status(), Some(2), "the libraries lie at different addresses");
    recorded.assert_clean();
    recorded.compared();
    for (size, name) in [(6001, "plugin_one"), (6002, "plugin_two")] {
        let stacks = recorded.seen().stacks_of(size);
        assert_eq!(stacks.len(), 20);
        for stack in stacks {
            assert_eq!(stack[..3], [name, "enter", "main"]);
        }
    }
}

/// A library whose constructor runs before the recorder's own.
const EARLY: &str = r#"
#include <stdlib.h>
__attribute__((noinline)) void *early(void) { void *object = malloc(6401); __asm__ volatile(""); return object; }
__attribute__((constructor)) static void first(void) { free(early()); }
"#;

#[test]
fn what_a_constructor_allocates_before_ours_has_a_stack_and_spoils_no_later_one() {
    let bench = Bench::empty();
    let path = |name: &str| bench.folder.path().join(name);
    let cc = |arguments: &[&std::ffi::OsStr]| {
        let flags = ["-O2", "-fomit-frame-pointer", "-fno-builtin"];
        assert!(
            std::process::Command::new("cc")
                .args(flags)
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    };
    let (library, program) = (path("libearly.so"), path("program"));
    std::fs::write(path("early.c"), EARLY).unwrap();
    let main =
        "#include <stdlib.h>\nvoid *early(void);\nint main(void) { free(early()); return 0; }\n";
    std::fs::write(path("main.c"), main).unwrap();
    let (shared, pic, out) = ("-shared".as_ref(), "-fPIC".as_ref(), "-o".as_ref());
    cc(&[shared, pic, out, library.as_ref(), path("early.c").as_ref()]);
    cc(&[out, program.as_ref(), path("main.c").as_ref(), library.as_ref()]);
    let bench = Bench { folder: bench.folder, program };
    let recorded = bench.record_checked(&[]);
    recorded.assert_clean();
    recorded.compared();
    let stacks = recorded.seen().stacks_of(6401);
    assert_eq!(stacks.len(), 2);
    assert_eq!((&*stacks[0][0], &stacks[1][..2]), ("early", &["early".into(), "main".into()][..]));
    // The first began in the loader, whose own beginning has no table.
    assert!(!stacks[1].contains(&"cut".into()), "{stacks:?}");
}

/// A program whose segments have a gap between them, as node's: the loader knows each by itself.
const GAP: &str = r#"
#include <stdlib.h>
__attribute__((noinline, section(".far"))) void *far_away(void) { void *object = malloc(6501); __asm__ volatile(""); return object; }
__attribute__((noinline)) void *near(void) { void *object = far_away(); __asm__ volatile(""); return object; }
int main(void) { free(near()); return 0; }
"#;

#[test]
fn a_program_with_a_gap_in_its_memory_is_followed_and_named() {
    let bench = Bench::optimised(GAP, &["-no-pie", "-Wl,--section-start=.far=0x20000000"]);
    let recorded = bench.record_checked(&[]);
    recorded.assert_clean();
    recorded.compared();
    let stacks = recorded.seen().stacks_of(6501);
    assert_eq!(stacks[0][..3], ["far_away", "near", "main"]);
    assert!(!stacks[0].contains(&"cut".into()), "{stacks:?}");
}

/// Code made at run time: with a frame pointer it is followed, without one the stack says that it is cut.
const MADE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) static void touch(size_t size) { void *volatile o = malloc(size); free(o); }
static void emit(unsigned char **at, const char *bytes, int len) { memcpy(*at, bytes, len); *at += len; }
int main(void) {
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char *at = code;
  void *function = touch;
  emit(&at, "\x55\x48\x89\xe5\x48\xb8", 6);   /* push rbp; mov rbp, rsp; mov rax, function */
  memcpy(at, &function, 8); at += 8;
  emit(&at, "\xff\xd0\x5d\xc3", 4);           /* call rax; pop rbp; ret */
  unsigned char *second = code + 256;
  at = second;
  emit(&at, "\x55\x31\xed\x48\xb8", 5);       /* push rbp; xor ebp, ebp; mov rax, function */
  memcpy(at, &function, 8); at += 8;
  emit(&at, "\xff\xd0\x5d\xc3", 4);
  /* What runtimes leave for profilers. */
  char name[64], line[128];
  snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
  int length = snprintf(line, sizeof line, "%lx %x made here\n", (long)code, 100);
  FILE *map = fopen(name, "w");
  fwrite(line, 1, length, map);
  fclose(map);
  puts(name);
  for (int i = 0; i < 20; i++) {
    ((void (*)(size_t))code)(6101);
    ((void (*)(size_t))second)(6102);
  }
  return 0;
}
"#;

#[test]
fn code_made_at_run_time_is_followed_by_its_frame_pointer_or_cut() {
    let bench = Bench::optimised(MADE, &[]);
    let recorded = bench.record_checked(&[]);
    std::fs::remove_file(recorded.stdout().trim()).unwrap();
    recorded.assert_clean();
    recorded.compared();
    for stack in recorded.seen().stacks_of(6101) {
        assert_eq!(stack[..3], ["touch", "made here", "main"]);
        assert!(!stack.contains(&"cut".into()), "{stack:?}");
    }
    for stack in recorded.seen().stacks_of(6102) {
        assert_eq!(stack, ["touch", "??", "cut"]);
    }
}

/// Prints the frames that the C library finds, as distances from `main`, and allocates in the same place.
const BACKTRACE: &str = r#"
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int main(void);
__attribute__((noinline)) static int both(int depth) {
  void *frames[64];
  int count = backtrace(frames, 64);
  void *volatile object = malloc(6200 + depth);
  for (int i = 1; i < count; i++) printf("%ld ", (long)((intptr_t)frames[i] - (intptr_t)main));
  puts("");
  free(object);
  return count;
}
__attribute__((noinline)) static int one(int depth);
__attribute__((noinline)) static int two(int depth) {
  volatile char room[depth * 24 + 8];
  room[0] = 1;
  return (depth ? one(depth - 1) : both(0)) + room[0] + (depth & 1 ? both(depth) : 0);
}
__attribute__((noinline)) static int one(int depth) { return two(depth) + 1; }
int main(void) { void *warm[1]; backtrace(warm, 1); one(9); return 0; }
"#;

#[test]
fn frames_are_those_of_the_c_library() {
    let bench = Bench::optimised(BACKTRACE, &["-no-pie"]);
    let recorded = bench.record_checked(&[]);
    recorded.assert_clean();
    let (stdout, seen) = (recorded.stdout(), recorded.seen());
    let (stacks, _) = seen.trace.stacks().unwrap();
    let (mut records, mut ours) = (seen.trace.records().unwrap(), Vec::new());
    while let Some(run) = records.next_run().unwrap() {
        for (timed, &stack) in run.events.iter().zip(run.stacks) {
            if let freehold_trace::Event::Alloc { request, .. } = timed.event
                && (6200..6210).contains(&request.size)
            {
                ours.push(stacks.walk(stack).skip(1).collect::<Vec<_>>());
            }
        }
    }
    let theirs: Vec<Vec<i64>> = stdout
        .lines()
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    assert_eq!((ours.len(), theirs.len()), (6, 6));
    let program = recorded.seen().trace.stacks().unwrap().0;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.len(), theirs.len());
        // Of the program's own frames, which begin and end the stack, offsets and addresses differ by the same.
        let is_own = |frame: &&freehold_trace::Frame| {
            let module = frame.module.map(|module| &program.modules()[module as usize]);
            module.is_some_and(|module| module.path.ends_with("/program"))
        };
        let frames = ours.iter().filter_map(|&frame| program.frame(frame));
        let own: Vec<i64> = frames.take_while(is_own).map(|frame| frame.offset as i64).collect();
        assert!(own.len() >= 2);
        for (ours, theirs) in own.windows(2).zip(theirs.windows(2)) {
            assert_eq!(ours[1] - ours[0], theirs[1] - theirs[0]);
        }
    }
}

const NAMED: &str = r#"
#include <stdlib.h>
static inline __attribute__((always_inline)) void *inner(size_t size) {
  return malloc(size);
}
__attribute__((noinline)) void *outer(size_t size) {
  void *object = inner(size);
  return object ? object : inner(1);
}
int main(void) {
  free(outer(6301));
  return 0;
}
"#;

#[test]
fn frames_have_functions_files_and_lines_also_those_inlined() {
    let bench = Bench::optimised(NAMED, &["-g"]);
    let recorded = bench.record(&[]);
    recorded.assert_clean();
    let stacks = recorded.seen().stacks_of(6301);
    assert_eq!(stacks.len(), 1, "stacks are recorded without being asked for");
    assert_eq!(stacks[0][..3], ["inner", "outer", "main"]);
    let (stacks, _) = recorded.seen().trace.stacks().unwrap();
    let mut calls = stacks.frames().iter().flat_map(|frame| &frame.calls);
    let inner = calls.find(|call| call.function == "inner").unwrap();
    assert!(inner.file.as_ref().is_some_and(|file| file.ends_with("program.c")), "{inner:?}");
    assert_eq!(inner.line, Some(4));
}

#[test]
fn names_come_from_a_debug_file_apart_or_are_module_and_offset() {
    let bench = Bench::optimised(NAMED, &["-g"]);
    let (program, debug) = (&bench.program, bench.folder.path().join("program.debug"));
    let run = |arguments: &[&std::ffi::OsStr]| {
        let done = std::process::Command::new("objcopy").args(arguments).status();
        assert!(done.is_ok_and(|status| status.success()), "{arguments:?}");
    };
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(&["--only-keep-debug".as_ref(), program.as_ref(), debug.as_ref()]);
    run(&["--strip-all".as_ref(), program.as_ref()]);
    run(&[link.as_ref(), program.as_ref()]);
    let stacks = bench.record(&[]).seen().stacks_of(6301);
    assert_eq!(stacks[0][..3], ["inner", "outer", "main"]);
    // Another build's debug file is not believed.
    let other = Bench::optimised(&NAMED.replace("outer", "wrong"), &["-g"]);
    run(&["--only-keep-debug".as_ref(), other.program.as_ref(), debug.as_ref()]);
    let recorded = bench.record(&[]);
    let stacks = recorded.seen().stacks_of(6301);
    assert_eq!(stacks[0][..2], ["?", "?"]);
    let (tables, _) = recorded.seen().trace.stacks().unwrap();
    assert!(tables.modules().iter().any(|module| module.path.ends_with("/program")));
}

#[test]
fn off_means_none_and_allocations_means_no_frees() {
    let bench = Bench::optimised(NAMED, &[]);
    let stacks = |which: &str| {
        let mut command = crate::support::freehold();
        command.args(["record", "--json", "--stacks", which, "-o"]).arg(bench.trace_path());
        let recorded = bench.recorded(command.arg("--").arg(&bench.program).output().unwrap());
        recorded.assert_clean();
        let (mut allocs, mut frees) = (0, 0);
        let mut records = recorded.seen().trace.records().unwrap();
        while let Some(run) = records.next_run().unwrap() {
            for (timed, stack) in run.events.iter().zip(run.stacks) {
                let is_free = matches!(timed.event, freehold_trace::Event::Free { .. });
                let count = if is_free { &mut frees } else { &mut allocs };
                *count += u32::from(stack.0 != 0);
            }
        }
        (recorded.seen().trace.has_stacks(), allocs > 0, frees > 0)
    };
    assert_eq!(stacks("off"), (false, false, false));
    assert_eq!(stacks("allocations"), (true, true, false));
    assert_eq!(stacks("all"), (true, true, true));
}

#[test]
fn a_rust_program_of_several_threads_is_as_a_plain_walk_finds_it() {
    let bench = Bench::empty();
    let mut command = crate::support::freehold();
    command.args(["record", "--json", "--stacks", "all", "--check-stacks", "-o"]);
    command.arg(bench.trace_path()).arg("--").arg(env!("CARGO_BIN_EXE_freehold"));
    command.args(["workload", "kernel", "quadtree"]);
    let recorded = bench.recorded(command.output().unwrap());
    recorded.assert_clean();
    assert!(recorded.compared() > 1_000);
}

const SITES: &str = r#"
#include <stdlib.h>
#include <string.h>
static void *kept[1000];
__attribute__((noinline)) char *copy(int bytes) {
  char *object = malloc(bytes);
  memset(object, 1, bytes);
  return object;
}
__attribute__((noinline)) void grow_cache(int i) { kept[i] = copy(10000); kept[i] = (char *)kept[i] + 0; }
__attribute__((noinline)) void lose(void) { void *volatile gone = calloc(1, 30000); gone = 0; }
__attribute__((noinline)) void convert(void) { void *volatile once = malloc(64); free(once); once = 0; }
int main(void) {
  for (int i = 0; i < 100; i++) grow_cache(i);
  for (int i = 0; i < 10; i++) lose();
  for (int i = 0; i < 100; i++) free(kept[i]);
  for (int i = 0; i < 500; i++) convert();
  return 0;
}
"#;

#[test]
fn info_names_the_sites_of_peak_leak_and_temporaries() {
    let bench = Bench::optimised(SITES, &["-g"]);
    bench.record(&[]).assert_clean();
    let info = |more: &[&str]| {
        let output =
            crate::support::freehold().arg("info").arg(bench.trace_path()).args(more).output();
        let output = output.unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&info(&["--json"])).unwrap();
    let sites = &json["sites"];
    let listed = sites["sites"].as_array().unwrap();
    let first = |what: &str| {
        let site = listed.iter().max_by_key(|site| site[what].as_u64()).unwrap();
        (site["function"].as_str().unwrap().to_owned(), site[what].as_u64().unwrap())
    };
    assert_eq!(first("peak_bytes"), ("copy".into(), 1_000_000));
    assert_eq!(first("leaked_bytes"), ("lose".into(), 300_000));
    assert_eq!(first("temporary"), ("convert".into(), 500));
    assert_eq!(sites["total"]["peak_bytes"], json["processes"][0]["peak"]["bytes"]);
    let callers = listed[0]["callers"].to_string();
    assert!(callers.starts_with("[\"grow_cache ("), "{callers}");
    assert!(listed[0]["place"].as_str().unwrap().ends_with("program.c:6"));
    let page = info(&[]);
    for line in ["Who held the peak: ", "  76.9%", "Whose was never freed: ", " lose "] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}
