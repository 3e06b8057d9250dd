//! Instructions of an example, counted by valgrind: they do not depend on the machine's mood, as times do.
//!
//! One run with the work and one without it cancel out what comes before and after.

use crate::library::cargo;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Ends the trial, which then counts as ignored, where there is no valgrind.
pub fn need_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        crate::skip("there is no valgrind here (apt install valgrind)");
    }
}

/// An example of a package, ready to be counted.
pub struct Counted {
    program: PathBuf,
    /// For what valgrind writes.
    folder: TempDir,
}

impl Counted {
    /// The example, built as it is released, beside the test that runs. Ends the trial where there is no valgrind.
    ///
    /// # Panics
    /// When it does not build.
    pub fn example(package: &str, name: &str) -> Counted {
        need_valgrind();
        // …/target/debug/deps/test-0123456789abcdef
        let test = std::env::current_exe().expect("a test knows its file");
        let target = test.ancestors().nth(3).expect("it lies in a target folder");
        let built = cargo()
            .args(["build", "--quiet", "--release", "--package", package, "--example", name])
            .env("CARGO_TARGET_DIR", target)
            .status()
            .expect("cargo runs: it runs this test");
        assert!(built.success(), "the example {name} does not build");
        let folder = tempfile::tempdir().expect("a folder for what is counted");
        Counted { program: target.join("release/examples").join(name), folder }
    }

    /// Instructions of a run with these arguments, and what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, arguments: &[&str]) -> (u64, String) {
        let out = self.folder.path().join("counts");
        let run = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=no"])
            .arg(format!("--cachegrind-out-file={}", out.display()))
            .arg(&self.program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("valgrind was asked for its version before");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let counts = std::fs::read_to_string(out).expect("valgrind has written it");
        let total = counts.lines().find_map(|line| line.strip_prefix("summary: "));
        let total = total.and_then(|total| total.trim().parse().ok()).expect("a sum of them");
        (total, String::from_utf8_lossy(&run.stdout).into_owned())
    }
}
