//! Memory outside of malloc, and processes by what they have: programs that know what they mapped.

use crate::support::{Bench, Recorded, freehold};
use freehold_trace::{MapChange, MapEvent, Part, ProcessId, Resident, Stacks, Trace, What};
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;

/// Maps 48 MiB in `hoard` and gives 16 of them back, has 20 by malloc, 8 shared, 6 on a thread's stack; then waits.
const HOARDER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char *map(size_t bytes, int flags) {
    char *p = mmap(0, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(2);
    memset(p, 1, bytes);
    return p;
}
__attribute__((noinline)) char *hoard(size_t bytes) {
    char *p = map(bytes, MAP_PRIVATE);
    __asm__ volatile("" ::: "memory");
    return p;
}
static void *deep(void *pipe) {
    volatile char here[6 << 20];
    memset((char *)here, 1, sizeof here);
    free(malloc(10)); // a thread is known by its first event
    char c;
    read(*(int *)pipe, &c, 1);
    return (void *)(long)here[7];
}
int main(void) {
    int ends[2];
    pthread_t thread;
    if (pipe(ends) || pthread_create(&thread, 0, deep, ends)) return 2;
    char *block = malloc(20 << 20);
    memset(block, 1, 20 << 20);
    errno = 77;
    char *hoarded = hoard(48 << 20);
    munmap(hoarded, 16 << 20);
    map(8 << 20, MAP_SHARED);
    char *small = map(4096, MAP_PRIVATE);
    small = mremap(small, 4096, 1 << 20, MREMAP_MAYMOVE);
    munmap(small, 1 << 20);
    if (sbrk(8192) == (void *)-1 || sbrk(-8192) == (void *)-1) return 3;
    if (errno != 77) return 4;
    if (munmap((void *)1, 4096) == 0 || errno != EINVAL) return 5;
    if (mmap(0, 0, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != EINVAL) return 6;
    usleep(400000);
    write(ends[1], "x", 1);
    pthread_join(thread, 0);
    return 0;
}
"#;

fn trace(bench: &Bench) -> Trace {
    let trace = Trace::open(bench.trace_path()).unwrap();
    assert_eq!(trace.damage(), []);
    trace
}

fn samples(trace: &Trace, process: u32) -> Vec<Resident> {
    let (samples, damage) = trace.residents_of(ProcessId(process)).unwrap();
    assert_eq!(damage, []);
    samples
}

fn mappings(trace: &Trace) -> Vec<MapEvent> {
    let mut all = Vec::new();
    let damage = trace.mappings_of(ProcessId(0), &mut |event| all.push(*event)).unwrap();
    assert_eq!(damage, []);
    all
}

fn resident(sample: &Resident, is_its: impl Fn(&Part) -> bool) -> u64 {
    sample.parts.iter().filter(|part| is_its(part)).map(|part| part.resident).sum()
}

/// Whether `found` is within `part` of what was expected.
#[track_caller]
fn near(found: u64, expected: u64, part: f64) {
    let difference = found.abs_diff(expected) as f64;
    assert!(difference <= expected as f64 * part, "{found} instead of {expected}");
}

fn ends_well(done: &Recorded) {
    assert_eq!(done.status(), Some(0), "{}", done.stderr());
}

#[test]
fn all_memory_is_named_and_calls_that_map_have_stacks() {
    let bench = Bench::c(HOARDER);
    ends_well(&bench.record(&[]));
    let trace = trace(&bench);
    let samples = samples(&trace, 0);
    // The last look comes however busy the machine is.
    let full = samples.last().unwrap();
    assert!(full.at_end);
    let of = |what| resident(full, |part| part.what == what);
    near(of(What::Mapped), 32 * MIB, 0.05);
    // The kernel joins the block and memory of the recorder's that is partly resident: divided by addresses.
    near(of(What::Malloc), 20 * MIB, 0.1);
    near(of(What::Shared), 8 * MIB, 0.05);
    let stacks = samples.iter().map(|sample| resident(sample, |part| part.what == What::Stack));
    near(stacks.max().unwrap(), 6 * MIB, 0.05);
    assert!(of(What::Recorder) > 0 && of(What::File) > 0, "{full:#?}");
    let mapped = full.parts.iter().find(|part| part.what == What::Mapped).unwrap();
    assert!(mapped.name.ends_with("/program"), "{mapped:?}");
    let live: u64 = full.parts.iter().map(|part| part.live).sum();
    near(live, 20 * MIB, 0.01);
    let peak = trace.processes()[0].peak_resident.unwrap();
    assert_eq!(peak, samples.iter().map(Resident::bytes).max().unwrap());
    near(trace.processes()[0].peak_bytes.unwrap(), 20 * MIB, 0.01);
    who_mapped(&trace);
}

/// The call in `hoard`, what became of it, and what was mapped at the end.
fn who_mapped(trace: &Trace) {
    let all = mappings(trace);
    let hoarded = all
        .iter()
        .find(|event| matches!(event.change, MapChange::Map { bytes, .. } if bytes == 48 * MIB));
    let hoarded = hoarded.unwrap_or_else(|| panic!("no mapping of 48 MiB: {all:?}"));
    let (stacks, _) = trace.stacks().unwrap();
    assert!(functions(&stacks, hoarded).contains(&"hoard".to_owned()));
    let gone = all.iter().find(|event| {
        event.map == hoarded.map && event.change == MapChange::Unmap { bytes: 16 * MIB }
    });
    assert!(gone.is_some(), "{all:?}");
    let small = |bytes| all.iter().filter(move |event| event.change == MapChange::Unmap { bytes });
    assert_eq!(small(4096).count(), 1, "mremap took the old one: {all:?}");
    assert_eq!(small(MIB).count(), 1);
    assert_eq!(small(8192).count(), 1, "by sbrk");
}

fn functions(stacks: &Stacks, event: &MapEvent) -> Vec<String> {
    let frames = stacks.walk(event.stack).filter_map(|frame| stacks.frame(frame));
    frames.flat_map(|frame| &frame.calls).map(|call| call.function.clone()).collect()
}

#[test]
fn without_stacks_memory_is_named_by_the_program() {
    let bench = Bench::c(HOARDER);
    let mut command = freehold();
    command.args(["record", "--json", "--stacks", "off", "-o"]).arg(bench.trace_path());
    let output = command.arg("--").arg(&bench.program).output().unwrap();
    ends_well(&bench.recorded(output));
    let trace = trace(&bench);
    let samples = samples(&trace, 0);
    let full = samples.last().unwrap();
    near(
        resident(full, |part| part.what == What::Mapped && part.name.ends_with("/program")),
        32 * MIB,
        0.05,
    );
}

/// Without the breaks and the indents that the terminal's width makes.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn info_opens_with_what_there_is() {
    let bench = Bench::c(HOARDER);
    ends_well(&bench.record(&[]));
    let info = |more: &[&str]| -> String {
        let output = freehold().arg("info").arg(bench.trace_path()).args(more).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let page = info(&[]);
    let opening: Vec<&str> = page.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    let opening = one_line(&opening.join(" "));
    assert!(opening.starts_with("What there is "), "{page}");
    assert!(opening.contains("resident at the peak: malloc explains "), "{page}");
    assert!(opening.contains("mapped by program"), "{page}");
    assert!(!opening.contains("from malloc at the peak"), "one opening: {page}");
    let once = |text: &str| assert_eq!(page.matches(text).count(), 1, "{text}: {page}");
    ["What there is", "Who has it", "What to do", "resident at the peak"]
        .into_iter()
        .for_each(once);
    let json: serde_json::Value = serde_json::from_str(&info(&["--json"])).unwrap();
    let there = &json["there"];
    near(there["malloc"]["resident"].as_u64().unwrap(), 20 * MIB, 0.1);
    let groups = there["groups"].as_array().unwrap();
    let sum: u64 = groups.iter().map(|group| group["resident"].as_u64().unwrap()).sum();
    assert_eq!(there["resident"].as_u64().unwrap(), sum, "shares are of the whole");
}

/// Signal handlers map and unmap amid the same calls of the program; forked children and one of `vfork` end by `_exit`.
const BUSY: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static void once(void) {
    char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p[0] = 1;
    munmap(p, 8192);
}
static volatile int handled;
static void handler(int signal) {
    int before = errno;
    once();
    handled++;
    errno = before;
}
int main(void) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = { { 0, 500 }, { 0, 500 } };
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; i < 40000 || handled < 20; i++) once();
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, 0);
    char *kept = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(kept, 1, 4 << 20);
    for (int i = 0; i < 3; i++) {
        int status, child = fork();
        if (child == 0) {
            munmap(kept, 2 << 20);
            _exit(7);
        }
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 2;
    }
    int status, child = vfork();
    if (child == 0) _exit(9);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 9) return 3;
    return 0;
}
"#;

#[test]
fn handlers_forks_and_ends_of_all_kinds() {
    let bench = Bench::c(BUSY);
    let done = bench.record_checked(&[]);
    ends_well(&done);
    let trace = trace(&bench);
    assert_eq!(trace.processes().len(), 4, "the child of vfork is nobody of its own");
    let all = mappings(&trace);
    let sum = |sign: fn(&MapChange) -> Option<u64>| -> u64 {
        all.iter().filter_map(|event| sign(&event.change)).sum()
    };
    let mapped = sum(|change| match change {
        MapChange::Map { bytes: bytes @ 8192, .. } => Some(*bytes),
        _ => None,
    });
    let gone = sum(|change| match change {
        MapChange::Unmap { bytes: bytes @ 8192 } => Some(*bytes),
        _ => None,
    });
    // A handler that came amid an event of its thread is counted as lost.
    assert!(mapped >= 40_000 * 8192 && mapped.abs_diff(gone) <= 100 * 8192, "{mapped} {gone}");
    for child in 1..4 {
        let last =
            samples(&trace, child).pop().unwrap_or_else(|| panic!("nobody looked at {child}"));
        assert!(last.at_end);
        near(resident(&last, |part| part.what == What::Mapped), 2 * MIB, 0.1);
    }
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Seventy-five processes; the one with the memory does fewer calls than others.
#[test]
fn of_a_script_the_process_with_the_most_memory_is_judged() {
    let bench = Bench::c(
        "#include <stdlib.h>\n#include <string.h>\nint main(int c, char **v) {\n\
         size_t bytes = atol(v[1]);\n int many = atoi(v[2]);\n\
         char *p = malloc(bytes); memset(p, 1, bytes);\n\
         for (int i = 0; i < many; i++) free(malloc(100));\n return p[3] != 1; }\n",
    );
    let (quick, heavy) = (bench.folder.path().join("quick"), bench.folder.path().join("heavy"));
    std::fs::copy(&bench.program, &quick).unwrap();
    std::fs::rename(&bench.program, &heavy).unwrap();
    let script =
        "i=0; while [ $i -lt 73 ]; do \"$0\" 1000 2000; i=$((i+1)); done; \"$1\" 30000000 3; :";
    let mut command = freehold();
    command.args(["record", "-q", "-o"]).arg(bench.trace_path());
    output(command.args(["--", "sh", "-c", script]).arg(&quick).arg(&heavy));
    let trace = trace(&bench);
    assert!(trace.processes().len() >= 75, "{}", trace.processes().len());
    let info = output(freehold().arg("info").arg(bench.trace_path()));
    let page = String::from_utf8(info.stdout).unwrap();
    let (_, of) = page.split_once("resident at the peak of ").unwrap_or_else(|| panic!("{page}"));
    let number = of.split(':').next().unwrap();
    assert!(number.starts_with("heavy (process "), "{page}");
    assert!(page.contains(&format!("Of {number}, which has the most memory:")), "{page}");
    assert!(page.contains("28.6 MiB"), "{page}");
    let listed = page.split("\nProcesses\n").nth(1).unwrap();
    assert!(listed.lines().nth(1).unwrap().contains("/heavy 30000000 3"), "{listed}");
    let mut replay = freehold();
    replay.args(["replay", "--on", "first-fit"]).arg(bench.trace_path());
    let table = String::from_utf8(output(&mut replay).stdout).unwrap();
    assert!(table.starts_with("heavy: "), "{table}");
    assert!(table.contains("quick ("), "others by name and memory: {table}");
    let all = output(freehold().arg("info").arg(bench.trace_path()).args(["--process", "all"]));
    let all = String::from_utf8(all.stdout).unwrap();
    assert!(!all.contains("which has the most memory"), "the sum: {all}");
}

/// A worker names itself after it began.
#[test]
fn a_process_that_changes_its_title_is_called_by_it() {
    let bench = Bench::c(
        "#include <string.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <sys/wait.h>\n\
         int main(int c, char **v) {\n if (fork() == 0) {\n\
         char *p = malloc(3000000); memset(p, 1, 3000000); usleep(50000);\n\
         memset(v[0], 0, strlen(v[0])); strcpy(v[0], \"app: worker\");\n\
         usleep(50000); _exit(p[0] != 1); }\n\
         wait(0); return 0; }\n",
    );
    ends_well(&bench.record(&[]));
    let trace = trace(&bench);
    let worker = trace.process(ProcessId(1)).unwrap();
    assert_eq!(worker.title, "app: worker");
    assert_eq!(worker.name(), Some("app: worker"));
    assert_eq!(trace.process(ProcessId(0)).unwrap().title, "");
    assert!(worker.peak_bytes.unwrap() >= 3_000_000);
}
