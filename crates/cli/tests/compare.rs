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

freehold_testkit::trials! {
    a_program_passes_through_and_is_compared,
    a_program_that_fails_is_compared_with_a_warning,
    a_program_that_is_not_there_gives_the_shell_s_code,
    nothing_runs_for_a_report_that_cannot_be_written,
    unknown_names_are_usage_errors,
    a_program_that_the_recorder_cannot_see_is_a_clear_error,
}
