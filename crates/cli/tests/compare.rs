//! `freehold compare` from outside, on small programs. One test may lack a tool: see `trials!`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compares on two policies, which need no allocator of this machine.
    fn compare(&self, arguments: &[&str]) -> Output {
        self.compare_on("good-fit,best-fit", arguments)
    }

    fn compare_on(&self, list: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.args(["compare", "--on", list]).args(arguments).output().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn a_program_passes_through_and_is_compared() {
    let desk = Desk::new();
    let output = desk.compare(&["--", "sh", "-c", "echo the program speaks"]);
    let (said, shown) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{said}");
    assert!(shown.starts_with("the program speaks\n"), "{shown}");
    assert!(shown.contains("best-fit") && shown.contains("report.html"), "{shown}");
    assert_eq!(desk.names(), ["report.html"], "the trace was temporary");
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains(
        "freehold compare --on good-fit,best-fit -- sh -c &#39;echo the program speaks&#39;"
    ));
}

fn a_program_that_fails_is_compared_with_a_warning() {
    let desk = Desk::new();
    let output =
        desk.compare(&["--keep", "kept.fht", "-o", "r.html", "--", "sh", "-c", "echo x; exit 3"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("exit code 3"), "{said}");
    assert_eq!(desk.names(), ["kept.fht", "r.html"]);
    assert!(fs::read_to_string(desk.path("r.html")).unwrap().contains("exit code 3"));
}

fn a_program_that_is_not_there_gives_the_shell_s_code() {
    let desk = Desk::new();
    let output = desk.compare(&["--", "./no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
    assert!(desk.names().is_empty(), "{:?}", desk.names());
}

fn nothing_runs_for_a_report_that_cannot_be_written() {
    let desk = Desk::new();
    let output = desk.compare(&["-o", "missing/report.html", "--", "sh", "-c", "echo ran"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "the program was not run");
    assert!(text(&output.stderr).contains("missing/report.html cannot be written"));
}

fn unknown_names_are_usage_errors() {
    let desk = Desk::new();
    let output = desk.compare_on("god-fit", &["--", "sh", "-c", "echo ran"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean good-fit"));
    assert!(output.stdout.is_empty());
}

fn a_program_that_the_recorder_cannot_see_is_a_clear_error() {
    let desk = Desk::new();
    fs::write(desk.path("idle.c"), "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc")
        .current_dir(desk.folder.path())
        .args(["-static", "-o", "idle", "idle.c"])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return freehold_testkit::skip("there is no C compiler `cc` that links statically");
    }
    let output = desk.compare(&["--", "./idle"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("statically linked"), "{}", text(&output.stderr));
    assert_eq!(desk.names(), ["idle", "idle.c"]);
}

/// A library that defines malloc, and is glibc's in all but its name.
const MALLOC_OF_ITS_OWN: &str = "
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
void *memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
void *valloc(size_t n) { return __libc_memalign(4096, n); }
void *pvalloc(size_t n) { return __libc_memalign(4096, (n + 4095) & ~4095ul); }
int posix_memalign(void **p, size_t a, size_t n) { *p = __libc_memalign(a, n); return *p ? 0 : 12; }
";
const OF_THAT_MALLOC: &str = "
#include <stdlib.h>
void *volatile last;
int main(void) {
  for (int i = 0; i < 20000; i++) { free(last); last = malloc(100 + i % 50); }
  return 0;
}
";

/// What is advised is judged against the malloc that the program has, be it linked or preloaded.
fn a_program_that_brings_its_malloc_is_not_told_to_keep_another() {
    let desk = Desk::new();
    fs::write(desk.path("mine.c"), MALLOC_OF_ITS_OWN).unwrap();
    fs::write(desk.path("program.c"), OF_THAT_MALLOC).unwrap();
    let compile = |words: &str| {
        let mut cc = Command::new("cc");
        let status = cc.current_dir(desk.folder.path()).args(words.split(' ')).status();
        assert!(status.unwrap().success(), "{words}");
    };
    compile("-shared -fPIC -fno-builtin -o libmine.so mine.c");
    compile("-fno-builtin -o program program.c -Wl,--no-as-needed -L. -lmine -Wl,-rpath,$ORIGIN");
    let advice = |on: &str| {
        let output = desk.compare_on(on, &["--runs", "2", "--", "./program"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let unmeasured = advice("glibc,good-fit");
    assert!(
        unmeasured.contains("The program brings libmine.so, which was not measured"),
        "{unmeasured}"
    );
    assert!(!unmeasured.contains("Keep glibc"), "{unmeasured}");
    let measured = advice("glibc,./libmine.so");
    let is_judged = ["Keep ./libmine.so", "instead of ./libmine.so"]
        .iter()
        .any(|words| measured.contains(words));
    assert!(is_judged, "{measured}");
}

freehold_testkit::trials! {
    a_program_that_brings_its_malloc_is_not_told_to_keep_another,
    a_program_passes_through_and_is_compared,
    a_program_that_fails_is_compared_with_a_warning,
    a_program_that_is_not_there_gives_the_shell_s_code,
    nothing_runs_for_a_report_that_cannot_be_written,
    unknown_names_are_usage_errors,
    a_program_that_the_recorder_cannot_see_is_a_clear_error,
}
