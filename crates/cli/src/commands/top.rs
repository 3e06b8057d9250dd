//! `freehold top`: what the heaps of a running program hold, without stopping it.
//!
//! The program does nothing for it: its structures are read as they lie, through the kernel, and counted
//! here by the same walk that it uses itself (`core::malloc::census`).

mod profile;
mod remote;
mod screen;
mod serve;

use crate::ui;
use anyhow::{Context, Result};
use freehold_core::stats::{Counts, Format, HeapReport, Report};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Show what the heaps of a running program hold, while it runs.
///
/// The program has to run on Freehold's malloc (`freehold run`, LD_PRELOAD, linked, or as Rust's global
/// allocator). It is neither stopped nor slowed down: only its memory is read, which needs the permission
/// to trace it, that is: to be its user (and, where /proc/sys/kernel/yama/ptrace_scope is 1 or more, root
/// or CAP_SYS_PTRACE; in a container also the other's namespace).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold top 1234                      every second, until the program ends or Ctrl-C
  freehold top 1234 --once               once: all size classes
  freehold top 1234 --json | jq '.heaps[0].in_use'
  freehold top 1234 --format openmetrics --once > metrics.om
  freehold top 1234 --serve 127.0.0.1:9123       http://127.0.0.1:9123/metrics

--serve answers GET of /metrics (OpenMetrics), /stats.json, /stats.txt and /stats.xml until the program \
ends; each request is one look. Of a program that takes samples (FREEHOLD_PROFILE=/dev/null, or a file that it writes at \
its end), /profile is what is in use and what was allocated, by call stack, up to now: pprof -http=: http://127.0.0.1:9123/profile. \
Port 0 is any that is free. There is no password: whoever reaches the address reads statistics, and paths and addresses of the program's code.

Sizes are those of blocks, not what was asked for. `cached` blocks are free, but a thread's; `free` ones \
are nobody's, and their pages go back when the program rests.

Exit status: 0 shown (also when the program ends meanwhile); 1 it cannot be read; 2 the command line was \
wrong; 130 interrupted.")]
pub struct Args {
    /// The process.
    #[arg(value_name = "PID")]
    pid: u32,
    /// Show it once, and end.
    #[arg(long)]
    once: bool,
    /// Print JSON, one object a line; every second unless --once is given.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// How to write it.
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Style>,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Print nothing, and answer scrapers at this address and port.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["once", "json", "format", "every"])]
    serve: Option<SocketAddr>,
}

/// How to write it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Style {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// OpenMetrics 1.0, for monitoring.
    Openmetrics,
    /// As glibc's malloc_info writes it.
    Xml,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds from 0.05 to 86400 are meant".to_owned()),
    }
}

/// What was found at one moment.
pub struct Look {
    pub pid: u32,
    pub heaps: Vec<HeapReport>,
    pub counts: Option<Counts>,
}

impl Look {
    fn bytes(&self, format: Format) -> Vec<u8> {
        let mut bytes = Vec::new();
        let report = Report { pid: self.pid, heaps: &self.heaps, counts: self.counts.as_ref() };
        report.write(format, &mut |part: &[u8]| bytes.extend_from_slice(part));
        bytes
    }
}

/// Looks once, or until the program ends.
pub fn run(args: Args) -> Result<ExitCode> {
    let style = if args.json { Style::Json } else { args.format.unwrap_or(Style::Text) };
    let process = remote::Process::find(args.pid)?;
    if let Some(address) = args.serve {
        return serve::run(&process, args.pid, address);
    }
    let on_screen = !args.once && style == Style::Text && ui::obeys(&io::stdout());
    let stop = ui::interrupted();
    let mut before: Option<(Instant, Look)> = None;
    loop {
        let look = match process.look() {
            Ok(look) => look,
            Err(_) if before.is_some() && process.has_ended() => {
                eprintln!("freehold top: process {} has ended", args.pid);
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let shown = match (style, on_screen) {
            (Style::Text, true) => {
                let earlier = before.as_ref().map(|(then, look)| (now - *then, look));
                screen::draw(&look, earlier)
            }
            (Style::Text, false) => look.bytes(Format::Text),
            (Style::Json, _) => look.bytes(Format::Json),
            (Style::Openmetrics, _) => look.bytes(Format::OpenMetrics),
            (Style::Xml, _) => look.bytes(Format::Xml),
        };
        let mut out = io::stdout().lock();
        out.write_all(&shown).and_then(|()| out.flush()).context("cannot print")?;
        drop(out);
        before = Some((now, look));
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        let next = now + Duration::from_secs_f64(args.every);
        while Instant::now() < next {
            if ui::is_raised(&stop) {
                return Ok(ExitCode::from(ui::EXIT_INTERRUPTED));
            }
            std::thread::sleep((next - Instant::now().min(next)).min(Duration::from_millis(50)));
        }
    }
}
