//! What the commands send to a terminal: colours and moves of the cursor only where they are understood and wanted.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A terminal of 24 lines of so many columns: our end, and the program's.
fn terminal(columns: u16) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let null = std::ptr::null_mut();
    // SAFETY: the C library writes two descriptors, which are ours then, and reads the size.
    unsafe {
        let made = libc::openpty(&mut ours, &mut theirs, null, null.cast(), &size);
        assert_eq!(made, 0, "a terminal");
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

/// What `freehold` shows on a terminal of this kind.
fn shown(arguments: &[&str], columns: u16, environment: &[(&str, &str)]) -> String {
    let (mut ours, theirs) = terminal(columns);
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("TERM").env_remove("CI");
    command.envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    // The command holds the program's end, too.
    drop(command);
    let mut text = Vec::new();
    // A terminal whose other end is closed gives an error, not an end.
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = ours.read(&mut part) {
        text.extend_from_slice(&part[..count]);
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Commands that show colours, each of another kind.
fn colourful() -> Vec<Vec<String>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/golden/v1.0.fht");
    let golden = golden.to_str().unwrap();
    let all: [&[&str]; 4] = [
        &["info", golden],
        &["replay", golden, "--on", "good-fit,best-fit"],
        &["--help"],
        &["info", "--no-such-flag"],
    ];
    all.iter().map(|words| words.iter().map(|word| word.to_string()).collect()).collect()
}

#[test]
fn a_terminal_gets_colours() {
    for command in colourful() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = shown(&words, 100, &[("TERM", "xterm")]);
        assert!(text.contains('\x1b'), "{command:?}: {text}");
    }
}

#[test]
fn a_dumb_terminal_or_one_without_a_name_gets_no_escapes() {
    for environment in
        [&[("TERM", "dumb")][..], &[("TERM", "dumb"), ("CI", "1")], &[], &[("TERM", "")]]
    {
        for command in colourful() {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let text = shown(&words, 100, environment);
            assert!(
                !text.is_empty() && !text.contains('\x1b'),
                "{command:?}, {environment:?}: {text}"
            );
        }
    }
}

#[test]
fn who_wants_no_colours_gets_none() {
    for command in colourful() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = shown(&words, 100, &[("TERM", "xterm"), ("NO_COLOR", "1")]);
        assert!(!text.is_empty() && !text.contains('\x1b'), "{command:?}: {text}");
    }
}

#[test]
fn top_draws_no_screen_on_a_dumb_terminal() {
    let mut sleeper = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .args(["run", "--quiet", "--", "sleep", "60"])
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let children = format!("/proc/{0}/task/{0}/children", sleeper.id());
    let program = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let arguments = ["top", "--every", "0.1", &program];
    let ended = |id: String| {
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            Command::new("kill").arg(id).status().unwrap();
        })
    };
    let end = ended(program.clone());
    let text = shown(&arguments, 100, &[("TERM", "dumb")]);
    end.join().unwrap();
    sleeper.wait().unwrap();
    assert!(text.contains("in use") && !text.contains('\x1b'), "{text}");
}

#[test]
fn the_manual_page_is_shown_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().to_str().unwrap();
    let text = shown(&["man"], 80, &[("TERM", "xterm"), ("PATH", nowhere)]);
    assert!(text.contains("Usage") && !text.contains(".TH"), "without man, the help: {text}");
    let man = folder.path().join("man");
    std::fs::write(&man, "#!/bin/sh\necho \"man $*\"\nread first\nread second\necho got\n")
        .unwrap();
    std::fs::set_permissions(&man, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = shown(&["man"], 80, &[("TERM", "xterm"), ("PATH", nowhere)]);
    assert!(text.contains("man -l -") && text.contains("got") && !text.contains(".TH"), "{text}");
    let piped = Command::new(env!("CARGO_BIN_EXE_freehold")).arg("man").output().unwrap();
    assert!(String::from_utf8_lossy(&piped.stdout).contains(".TH"), "in a pipe, the source");
}

#[test]
fn pages_and_tables_fit_sixty_columns() {
    for command in &colourful()[..2] {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = shown(&words, 60, &[("TERM", "xterm"), ("NO_COLOR", "1")]);
        // Notes and sentences are the terminal's to break.
        let sentences =
            |line: &&str| !line.trim_end().ends_with(['.', ')']) && !line.starts_with("Note");
        for line in text.lines().skip(1).filter(sentences) {
            let wide = line.trim_end().chars().count();
            assert!(wide <= 60, "{wide} columns: {line}\n{text}");
        }
    }
}
