//! `freehold export` on good and bad input.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/golden/v1.0.fht")
}

fn export(trace: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.arg("export").arg(trace).args(args).output().unwrap()
}

#[test]
fn formats_by_name_and_by_ending() {
    let folder = tempfile::tempdir().unwrap();
    for (name, magic) in
        [("a.parquet", &b"PAR1"[..]), ("a.csv", b"tick,seconds"), ("a.pb.gz", b"\x1f\x8b")]
    {
        let path = folder.path().join(name);
        let output = export(&golden(), &["-o", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::read(&path).unwrap().starts_with(magic), "{name}");
    }
    let output = export(&golden(), &["--format", "csv", "-o", "-", "--process", "1"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    let output = export(&golden(), &["-o", "what.xyz"]);
    assert_eq!(output.status.code(), Some(2), "the command line is wrong");
    assert!(String::from_utf8(output.stderr).unwrap().contains("--format"));
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("no/such/a.csv");
    for target in [inside.to_str().unwrap(), "/dev/full"] {
        for format in ["csv", "parquet", "pprof"] {
            let output = export(&golden(), &["--format", format, "-o", target]);
            assert_eq!(output.status.code(), Some(1), "{target}");
            let message = String::from_utf8(output.stderr).unwrap();
            assert!(message.contains(target), "{message}");
        }
    }
}

#[test]
fn a_damaged_trace_exports_what_is_sound_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, csv) = (folder.path().join("cut.fht"), folder.path().join("cut.csv"));
    let bytes = std::fs::read(golden()).unwrap();
    std::fs::write(&trace, &bytes[..bytes.len() - 1]).unwrap();
    let output = export(&trace, &["-o", csv.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("damaged"));
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 24);
}
