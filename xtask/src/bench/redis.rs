//! The `redis` row: a server under the tested allocator, loaded by a bounded redis-benchmark (which runs without any
//! preload) over a socket file. Its wall time is the client's, everything else is the server's.

use super::allocators::Allocator;
use super::launch::{self, Job, Outcome};
use super::place::{Place, find_program};
use anyhow::Context;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CLIENT: &str = "redis-benchmark";
const REQUESTS: &str = "60000";
const TESTS: &str = "set,get,lpush,lpop,sadd,hset,zadd";

/// The program that loads the server.
pub fn client() -> anyhow::Result<PathBuf> {
    find_program(CLIENT, "redis-tools")
}

/// One run: start, wait until it answers, load, shut down.
pub fn run(
    place: &Place,
    allocator: &Allocator,
    job: &Job,
    debug: Option<&Path>,
    quick: bool,
) -> anyhow::Result<Outcome> {
    let client = client()?;
    let socket = place.scratch.join("redis.sock");
    let _ = std::fs::remove_file(&socket);
    let server = launch::start(place, allocator, job, debug)?;
    let loaded = wait_for(&socket).and_then(|()| {
        let start = Instant::now();
        load(&client, &socket, quick)?;
        Ok(start.elapsed())
    });
    let _ = ask(&socket, "SHUTDOWN NOSAVE\r\n");
    let mut outcome = server.finish()?;
    match loaded {
        Ok(wall) => outcome.usage.wall_ns = u64::try_from(wall.as_nanos())?,
        Err(why) if outcome.failure().is_none() => return Err(why),
        Err(_) => {}
    }
    Ok(outcome)
}

fn load(client: &Path, socket: &Path, quick: bool) -> anyhow::Result<()> {
    let requests = if quick { "8000" } else { REQUESTS };
    let mut command = Command::new(client);
    command.arg("-s").arg(socket).args(["-q", "-n", requests, "-c", "20", "-P", "16"]);
    command.args(["-r", "50000", "-d", "100", "-t", TESTS]).env_remove("LD_PRELOAD");
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    anyhow::ensure!(status.success(), "{CLIENT} failed ({status})");
    Ok(())
}

fn wait_for(socket: &Path) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if ask(socket, "PING\r\n").is_ok_and(|answer| answer.starts_with("+PONG")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    anyhow::bail!("redis-server does not answer on {} within 10 s", socket.display())
}

fn ask(socket: &Path, request: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket).context("no server")?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
