//! `freehold top` on a program that runs, on one that does not use the malloc, and on none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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

/// The answer to a request, head and body.
fn ask(address: &str, request: &str) -> String {
    let mut server = TcpStream::connect(address).unwrap();
    server.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn scrapers_are_answered_from_outside_of_the_program() {
    let child = shell(Some(&library()));
    let pid = child.id().to_string();
    let mut serving = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .args(["top", &pid, "--serve", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(serving.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned();
    let get = |path: &str| ask(&address, &format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"));
    let metrics = get("/metrics");
    let (head, body) = metrics.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("application/openmetrics-text"));
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert!(body.starts_with("# TYPE freehold_in_use") && body.ends_with("# EOF\n"), "{body}");
    let json = get("/stats.json?now");
    let json: serde_json::Value =
        serde_json::from_str(json.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(json["pid"].to_string(), pid);
    assert!(get("/etc/passwd").starts_with("HTTP/1.1 404"));
    let head = ask(&address, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(&address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    // One that says nothing, and one that says too much, stop nobody for long.
    let silent = TcpStream::connect(&address).unwrap();
    assert!(get("/stats.txt").contains("200 OK"));
    drop(silent);
    let mut endless = TcpStream::connect(&address).unwrap();
    let _ = endless.write_all(&[b'x'; 20_000]);
    assert!(get("/metrics").contains("200 OK"));
    end(child);
    assert_eq!(serving.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("has ended"), "{rest}");
}
