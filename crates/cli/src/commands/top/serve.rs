//! Answers scrapers: each request is a look at the process, whose memory is read then and only then.
//!
//! Nothing listens inside the program. Connections are answered one after the other, each within [`PATIENCE`]: scrapers are few and rare.
//! Who can reach the address can read statistics and profile, and no more; only `GET` and `HEAD` of a few paths are answered.

use super::remote::Process;
use crate::ui;
use anyhow::{Context, Result};
use freehold_core::stats::Format;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a client may take for its request, and for the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request.
const MOST_BYTES: usize = 8192;
/// Between two looks at whether somebody connects, or the user wants to stop.
const BEAT: Duration = Duration::from_millis(20);

/// The sampled profile, for pprof.
const PROFILE: &str = "/profile";
/// What is served beside it, by path.
const PATHS: [(&str, Format, &str); 4] = [
    ("/metrics", Format::OpenMetrics, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ("/stats.json", Format::Json, "application/json"),
    ("/stats.txt", Format::Text, "text/plain; charset=utf-8"),
    ("/stats.xml", Format::Xml, "application/xml"),
];

const NO_SAMPLES: &str = "The program takes no samples: start it with FREEHOLD_PROFILE=/dev/null, or by freehold run --profile FILE.\n";

/// Serves until the program ends or the user stops it.
///
/// # Errors
/// When the address cannot be listened at.
pub fn run(process: &Process, pid: u32, address: SocketAddr) -> Result<ExitCode> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("nobody can be answered at {address}"))?;
    listener.set_nonblocking(true).context("cannot wait for connections")?;
    let here = listener.local_addr().context("the address is not known")?;
    eprintln!("freehold top: http://{here}/metrics is process {pid}");
    let stop = ui::interrupted();
    while !ui::is_raised(&stop) {
        if process.has_ended() {
            eprintln!("freehold top: process {pid} has ended");
            return Ok(ExitCode::SUCCESS);
        }
        match listener.accept() {
            // A client that goes away, or is too slow, harms nobody but itself.
            Ok((client, _)) => drop(answer(process, client)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(BEAT),
            // Of one connection; or there are no descriptors for now.
            Err(_) => std::thread::sleep(BEAT),
        }
    }
    Ok(ExitCode::from(ui::EXIT_INTERRUPTED))
}

/// Answers one request, and closes.
fn answer(process: &Process, mut client: TcpStream) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let head = request(&mut client)?;
    let (method, path) = wanted(&head);
    let found = PATHS.iter().find(|(known, ..)| *known == path);
    let (status, kind, body) = match (method, found) {
        ("GET" | "HEAD", Some((_, format, kind))) => match process.look() {
            Ok(look) => ("200 OK", *kind, look.bytes(*format)),
            Err(error) => ("503 Service Unavailable", "text/plain", format!("{error:#}\n").into()),
        },
        ("GET" | "HEAD", None) if path == PROFILE => match process.profile() {
            Ok(Some(profile)) => ("200 OK", "application/octet-stream", profile),
            Ok(None) => ("404 Not Found", "text/plain", NO_SAMPLES.into()),
            Err(error) => ("503 Service Unavailable", "text/plain", format!("{error:#}\n").into()),
        },
        ("GET" | "HEAD", None) => ("404 Not Found", "text/plain", paths().into()),
        _ => ("405 Method Not Allowed", "text/plain", "GET or HEAD\n".into()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nAllow: GET, HEAD\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    if method != "HEAD" {
        client.write_all(&body)?;
    }
    client.flush()
}

/// The request up to its empty line: within the time, or not at all.
fn request(client: &mut TcpStream) -> io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > MOST_BYTES {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => bytes.extend_from_slice(&part[..got]),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Method and path of a request, without what follows a question mark.
fn wanted(head: &str) -> (&str, &str) {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    (method, target.split('?').next().unwrap_or_default())
}

fn paths() -> String {
    let all = PATHS.iter().map(|(path, ..)| *path).chain([PROFILE]);
    all.map(|path| format!("{path}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn what_is_wanted_stands_in_the_first_line() {
        assert_eq!(wanted("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"), ("GET", "/metrics"));
        assert_eq!(wanted("\r\n\r\n"), ("", ""));
    }
}
