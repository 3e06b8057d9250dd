//! `freehold top` on a program that runs, on one that does not use the malloc, and on none.

#[allow(
    dead_code,
    reason = "of labels and of all samples together, only the malloc's own tests read"
)]
#[path = "../../capi/tests/support/pprof.rs"]
mod pprof;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

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

/// A server of the process's statistics, what it says, and its address.
fn serve(pid: &str) -> (Child, BufReader<ChildStderr>, String) {
    let mut serving = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .args(["top", pid, "--serve", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(serving.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned();
    (serving, said, address)
}

fn scrapers_are_answered_from_outside_of_the_program() {
    let child = shell(Some(&library()));
    let pid = child.id().to_string();
    let (mut serving, mut said, address) = serve(&pid);
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
    let profile = get("/profile");
    assert!(
        profile.starts_with("HTTP/1.1 404") && profile.contains("FREEHOLD_PROFILE"),
        "{profile}"
    );
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

/// Two functions allocate 8 MB each; the blocks of one are freed, those of the other are in use while the program waits.
const KEEPER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
enum { BLOCKS = 8000, BYTES = 1000 };
static void *kept[BLOCKS];
__attribute__((noinline, aligned(64))) void *keeps(void) { void *p = malloc(BYTES); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline, aligned(64))) void *drops(void) { void *p = malloc(BYTES); __asm__ volatile("" : "+r"(p)); return p; }
int main(void) {
  for (int i = 0; i < BLOCKS; i++) { kept[i] = keeps(); free(drops()); }
  printf("%p %p\n", (void *)keeps, (void *)drops);
  fflush(stdout);
  return getchar() == EOF;
}
"#;

/// The program, which has allocated; the addresses of its two functions. None (said aloud) without a compiler.
fn keeper(folder: &Path, profile: &Path) -> Option<(Child, [u64; 2])> {
    let source: PathBuf = folder.join("keeper.c");
    std::fs::write(&source, KEEPER).unwrap();
    let program = folder.join("keeper");
    let mut cc = Command::new("cc");
    let built = cc.args(["-O1", "-fno-builtin-malloc", "-o"]).arg(&program).arg(&source).status();
    let Ok(status) = built else {
        freehold_testkit::skip("no compiler named cc");
        return None;
    };
    assert!(status.success());
    let mut child = Command::new(program)
        .env("LD_PRELOAD", library())
        .env("FREEHOLD_PROFILE", profile)
        .env("FREEHOLD_PROFILE_RATE", "10K")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut addresses = line
        .split_whitespace()
        .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap());
    let two = [addresses.next().unwrap(), addresses.next().unwrap()];
    Some((child, two))
}

/// Bytes allocated and bytes in use, of the samples whose innermost caller lies in the 64 bytes from `function` on.
fn of_function(profile: &[u8], function: u64) -> (i64, i64) {
    let is_its = |sample: &pprof::Sample| {
        sample.callers.first().is_some_and(|caller| (function..function + 64).contains(caller))
    };
    let samples = pprof::samples(profile).filter(is_its);
    samples.fold((0, 0), |(ever, now), sample| (ever + sample.values[1], now + sample.values[3]))
}

/// The profile that is read from outside is the one that the program writes at its end, where nothing happens in between.
fn a_profile_is_read_from_outside_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.pb");
    let Some((child, [keeps, drops])) = keeper(folder.path(), &file) else { return };
    let (mut serving, _said, address) = serve(&child.id().to_string());
    let mut server = TcpStream::connect(&address).unwrap();
    server.write_all(b"GET /profile HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let (head, read) = (String::from_utf8_lossy(&answer[..body]), &answer[body..]);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    end(child);
    assert_eq!(serving.wait().unwrap().code(), Some(0));

    let own = std::fs::read(&file).unwrap();
    for function in [keeps, drops] {
        assert_eq!(of_function(read, function), of_function(&own, function));
    }
    // The two functions' parts, within five standard deviations of 800 samples.
    let whole = 8_000_000.0;
    let near = |found: i64| (found as f64 / whole - 1.0).abs() < 0.18;
    let (ever, now) = of_function(read, keeps);
    assert!(near(ever) && ever == now, "{ever} {now}");
    let (ever, now) = of_function(read, drops);
    assert!(near(ever) && now == 0, "{ever} {now}");
    let files = |profile: &[u8]| -> Vec<(String, String)> {
        let all = pprof::mappings(profile).into_iter();
        all.map(|mapping| (mapping.file, mapping.build_id)).collect()
    };
    assert_eq!(files(read), files(&own));
    assert!(files(read).iter().any(|(file, id)| file.ends_with("/keeper") && id.len() == 40));
}

freehold_testkit::trials! {
    a_running_program_is_read_without_its_doing,
    what_cannot_be_read_is_said,
    it_ends_with_the_program,
    scrapers_are_answered_from_outside_of_the_program,
    a_profile_is_read_from_outside_of_the_program,
}
