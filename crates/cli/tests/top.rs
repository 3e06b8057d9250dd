//! `freehold top` on a program that runs, on one that does not use the malloc, and on none.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold")).arg("top").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A shell that waits for a line, on the malloc or not; it has started when this returns.
fn shell(preload: Option<&str>) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "echo ready; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    child
}

fn end(mut child: Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
}

fn library() -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_freehold")).args(["run", "--library"]).output().unwrap();
    text(&output.stdout).trim_end().to_owned()
}

#[test]
fn a_running_program_is_read_without_its_doing() {
    let child = shell(Some(&library()));
    let pid = child.id().to_string();
    let json = top(&[&pid, "--once", "--json"]);
    assert_eq!(json.status.code(), Some(0), "{}", text(&json.stderr));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["schema"].as_u64(), json["pid"].to_string()), (Some(1), pid.clone()));
    assert_eq!(json["heaps"][0]["name"], "main");
    assert!(json["heaps"][0]["blocks"].as_u64().unwrap() > 0, "{json}");
    for (format, start) in
        [("text", "freehold "), ("openmetrics", "# TYPE freehold_in_use"), ("xml", "<malloc ")]
    {
        let output = top(&[&pid, "--once", "--format", format]);
        assert!(text(&output.stdout).starts_with(start), "{}", text(&output.stdout));
    }
    end(child);
}

#[test]
fn what_cannot_be_read_is_said() {
    let child = shell(None);
    let output = top(&[&child.id().to_string(), "--once"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("does not run on Freehold's malloc"));
    end(child);
    let output = top(&["4194304", "--once"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no process 4194304"));
}

#[test]
fn it_ends_with_the_program() {
    let child = shell(Some(&library()));
    let mut watching = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .args(["top", &child.id().to_string(), "--json", "--every", "0.05"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watching.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"schema\":1"), "{line}");
    end(child);
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("has ended"), "{}", text(&output.stderr));
}
