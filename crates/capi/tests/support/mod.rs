//! Builds the library as it ships and programs that use it.
//!
//! A C compiler is there: building the workspace took one. Tests of files in C++ are trials, which
//! count as ignored without a compiler for it.

#[allow(dead_code, reason = "of the tests of core files only")]
pub mod core_file;
#[allow(dead_code, reason = "of the tests that watch only")]
pub mod pprof;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where tests may write.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// The library, built as it ships; or the one that `TESTED_LIBRARY` names, to see what another does (CONTRIBUTING).
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| match std::env::var_os("TESTED_LIBRARY") {
        Some(other) => other.into(),
        None => freehold_testkit::preload_library(&folder()),
    })
}

/// Compiles a program of `tests/programs`.
pub fn compile(source: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    compile_with(&path, &["-ldl".as_ref()])
}

/// Compiles a program with arguments after the source.
pub fn compile_with(source: &Path, arguments: &[&std::ffi::OsStr]) -> PathBuf {
    let is_cxx = source.extension().is_some_and(|end| end == "cpp");
    let compiler = if is_cxx { "c++" } else { "cc" };
    // A name of its own: tests run at once, also those of several files, and some share a source.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = source.file_name().and_then(|name| name.to_str()).expect("a name of ours");
    let name = name.replace('.', "-");
    let program = folder().join(format!("{name}-{}-{number}", std::process::id()));
    let output = Command::new(compiler)
        // -fno-builtin: else pairs of malloc and free are compiled away.
        .args(["-O1", "-fno-builtin", "-pthread", "-Wall", "-Wno-use-after-free", "-o"])
        .arg(&program)
        .arg(format!("-I{}/include", env!("CARGO_MANIFEST_DIR")))
        .arg(source)
        .args(arguments)
        .output();
    let Ok(output) = output else {
        freehold_testkit::skip(&format!("there is no {compiler} here (apt install g++)"));
        panic!("what needs {compiler} is a trial, which ends in `skip`");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program on the library with options (`NAME`, value).
pub fn run(program: &Path, arguments: &[&str], options: &[(&str, &str)]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library())
        .envs(options.iter().copied())
        .output()
        .expect("what was compiled runs")
}

/// What is wrong, if anything, when the program does something wrong: it must be stopped by one line of ours, which
/// holds `message`.
pub fn unnoticed(
    program: &Path,
    kind: &str,
    message: &str,
    options: &[(&str, &str)],
) -> Option<String> {
    let output = run(program, &[kind], options);
    let said = String::from_utf8_lossy(&output.stderr);
    let is_line =
        said.starts_with("freehold: ") && said.lines().count() == 1 && said.ends_with('\n');
    let is_named = is_line && said.contains(message);
    let is_stopped = output.status.signal() == Some(libc::SIGABRT);
    (!is_named || !is_stopped).then(|| format!("{kind}: {}, {said:?}", output.status))
}

/// Fails, with all that it said, unless the program succeeded.
#[track_caller]
pub fn assert_passed(what: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{said}{complained}", output.status);
}
