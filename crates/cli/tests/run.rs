//! `freehold run` from outside.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold")).arg("run").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_runs_on_the_library_and_keeps_its_status() {
    let output = run(&["--", "sh", "-c", "cat /proc/self/maps; exit 7"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(shown.contains("libfreehold.so"), "{shown}");
    assert!(said.starts_with("freehold run: ") && said.contains("peak memory"), "{said}");
    // Most shells leave by `_exit`; what they started did not.
    assert_eq!((said.lines().count(), output.status.code()), (2, Some(7)), "{said}");
}

#[test]
fn quiet_says_nothing_and_signals_are_statuses() {
    let output =
        run(&["--quiet", "--no-purge", "--", "sh", "-c", "echo $FREEHOLD_PURGE; kill -9 $$"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("off\n", ""));
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let output = run(&["--", "/nowhere/at/all"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("/nowhere/at/all"), "{}", text(&output.stderr));
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().to_str().unwrap();
    for option in ["--profile", "--report"] {
        for file in ["/nonexistent/x", "/nonexistent/x-%p.json", taken] {
            let output = run(&[option, file, "--", "echo", "started"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{option} {file}: {said}");
            assert!(said.contains(option) && said.contains("cannot be written"), "{said}");
            assert_eq!(text(&output.stdout), "", "{option} {file}: the program must not run");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

#[test]
fn a_file_that_was_not_written_is_told_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r-%p.json");
    let report = ["--quiet", "--report", file.to_str().unwrap(), "--"];
    // Nothing runs at the end of a program that is killed.
    let killed = run(&[&report[..], &["sh", "-c", "kill -9 $$"]].concat());
    assert_eq!(killed.status.code(), Some(128 + 9), "the program's own failure counts more");
    assert!(text(&killed.stderr).contains("was not written"), "{}", text(&killed.stderr));
    let (source, program) = (folder.path().join("leave.c"), folder.path().join("leave"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { _exit(0); }\n").unwrap();
    let compiled = Command::new("cc").arg("-o").args([&program, &source]).status();
    assert!(compiled.expect("a C compiler is there").success());
    let left = run(&[&report[..], &[program.to_str().unwrap()]].concat());
    assert_eq!(left.status.code(), Some(125), "{}", text(&left.stderr));
    let ended = run(&[&report[..], &["env"]].concat());
    assert_eq!((ended.status.code(), text(&ended.stderr).as_str()), (Some(0), ""));
}

#[test]
fn the_file_lies_where_it_was_asked_for_though_the_program_goes_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .current_dir(folder.path())
        .args(["run", "--quiet", "--report", "r.json", "--", "env", "-C", "/", "env"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(folder.path().join("r.json").is_file());
}

#[test]
fn the_library_has_a_path() {
    let output = run(&["--library"]);
    let path = text(&output.stdout);
    assert!(std::path::Path::new(path.trim_end()).is_file(), "{path}");
}

#[test]
fn options_reach_the_program_and_their_figures_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("heap.pb");
    let output = run(&[
        "--stats",
        "--secure",
        "--limit",
        "1G",
        "--profile",
        profile.to_str().unwrap(),
        "--",
        "env",
    ]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    for variable in ["FREEHOLD_LIMIT=1073741824\n", "FREEHOLD_SECURE=on\n", "FREEHOLD_STATS=on\n"] {
        assert!(shown.contains(variable), "{shown}");
    }
    assert!(said.contains("freehold run: heap at the end: "), "{said}");
    assert!(said.contains(" blocks handed out (") && said.lines().count() == 3, "{said}");
    assert!(profile.metadata().unwrap().len() > 100);
    let mut import = Command::new(env!("CARGO_BIN_EXE_freehold"));
    let trace = folder.path().join("heap.fht");
    let imported = import.arg("import").args([&profile]).arg("-o").args([&trace]).output().unwrap();
    let said = text(&imported.stderr);
    assert!(imported.status.success() && said.contains("samples of pprof"), "{said}");
}

#[test]
fn a_program_that_is_killed_leaves_no_figures_and_that_is_said() {
    let output = run(&["--", "sh", "-c", "kill -9 $$"]);
    assert!(text(&output.stderr).contains("no figures of the heap"), "{}", text(&output.stderr));
}

#[test]
fn what_is_wrong_is_said_as_record_says_it() {
    for limit in ["3X", "1000K"] {
        let output = run(&["--limit", limit, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{limit}, before anything runs");
    }
    for (program, status, reason) in [
        ("no-such-program-anywhere", 127, "PATH"),
        ("/", 126, "folder"),
        ("/etc/passwd", 126, "chmod"),
    ] {
        let output = run(&["--", program]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(reason) && said.lines().count() == 1, "{said}");
    }
}

/// As `kill`, `docker stop` and supervisors send it: to the command alone.
#[test]
fn a_signal_to_the_command_reaches_the_program() {
    use std::io::Read;
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(["run", "--", "sh", "-c", "echo begun; exec sleep 1000"]);
    let piped = std::process::Stdio::piped;
    let mut child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    // SAFETY: the child was not waited for, so its number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    // Its standard output ends with the last process that has it.
    assert_eq!(child.stdout.as_mut().unwrap().read_to_end(&mut Vec::new()).unwrap(), 0);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM), "{said}");
    assert!(said.contains("peak memory"), "the summary is printed all the same: {said}");
}

#[test]
fn a_cache_folder_that_nothing_can_be_preloaded_from_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .env("XDG_CACHE_HOME", folder.path().join("two words"))
        .args(["run", "--", "sh", "-c", "cat /proc/self/maps"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(text(&output.stdout).contains("libfreehold.so") && !said.contains("ld.so"), "{said}");
}

/// Where standard output takes no more, a sentence and status 1: no panic.
#[test]
fn what_cannot_be_printed_is_said() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: this system has no /dev/full");
        return;
    }
    for arguments in [
        &["policies"][..],
        &["policies", "--json"],
        &["completions", "bash"],
        &["man"],
        &["run", "--library"],
        &["study", "mesh", "--settings"],
    ] {
        let to = std::fs::File::create(full).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_freehold"))
            .args(arguments)
            .stdout(to)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output())
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.starts_with("freehold: cannot print: ") && said.lines().count() == 1,
            "{said}"
        );
    }
}
