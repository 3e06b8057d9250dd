//! `freehold import` on good and bad input.

use freehold_trace::Trace;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/samples").join(name)
}

fn import(from: &Path, to: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.arg("import").arg(from).arg("-o").arg(to).output().unwrap()
}

#[test]
fn files_of_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out.fht");
    for name in ["heaptrack.zst", "mtrace.txt", "two-threads.wl"] {
        let output = import(&sample(name), &to);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{message}");
        assert!(message.contains("no threads") || message.contains("no times"), "{message}");
        assert!(Trace::open(&to).unwrap().events() >= 7);
    }
}

#[test]
fn skipped_lines_have_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("m.txt"), folder.path().join("out.fht"));
    std::fs::write(&from, "= Start\n@ x + 0x10 0x5\nrubbish\n@ x - 0x10\n").unwrap();
    let output = import(&from, &to);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("m.txt:3: skipped"), "{message}");
    assert_eq!(Trace::open(&to).unwrap().events(), 2);
}

#[test]
fn what_cannot_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("f"), folder.path().join("out.fht"));
    let refusal = |from: &Path, to: &Path| {
        let output = import(from, to);
        assert_eq!(output.status.code(), Some(1));
        assert!(!to.is_file(), "nothing is left");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&from, &to).contains("No such file"));
    assert!(refusal(folder.path(), &to).contains("is a directory"));
    std::fs::write(&from, "").unwrap();
    assert!(refusal(&from, &to).contains("is empty"));
    std::fs::write(&from, "some text\n").unwrap();
    assert!(
        refusal(&from, &to)
            .contains("neither a heaptrack nor an mtrace file, nor a workload, nor a profile")
    );
    let mtrace = sample("mtrace.txt");
    let trace = folder.path().join("trace.fht");
    assert!(import(&mtrace, &trace).status.success());
    assert!(refusal(&trace, &to).contains("is a Freehold trace already"));
    assert!(refusal(&mtrace, Path::new("/dev/full")).contains("is a device"));
    assert!(refusal(&mtrace, &folder.path().join("no/out.fht")).contains("cannot create"));
}
