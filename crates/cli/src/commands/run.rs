//! `freehold run`: run a program on Freehold's malloc.
//!
//! The program's input, output, signals and exit status stay its own; what this command has to say
//! goes to standard error, after the program, and comes from the kernel's own accounting and from what the
//! heaps held when it ended.

mod asked;
mod heap;

use crate::embedded::MALLOC;
use crate::ui;
use anyhow::{Context, Result};
use asked::Asked;
use freehold_collect::{launch, signals};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Run a program on Freehold's malloc.
///
/// Works with any program that loads shared libraries and does not bring its own malloc inside; the
/// processes that it starts are served too. Nothing is installed: the library is preloaded.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold run -- python3 script.py
  freehold run --quiet -- ./server --port 80
  freehold run --stats -- ./batch         count every call
  freehold run --profile heap.pb -- ./app  then: pprof -http=: ./app heap.pb
  freehold run --secure --limit 2G -- ./server
  freehold run --no-purge -- ./batch      keep freed memory until the program ends
  freehold run --report r-%p.json -- make every process's statistics (.json, .xml, .om, else text)
  freehold run --library                  print the library's path, for LD_PRELOAD

Not served, though never disturbed: statically linked programs, set-uid programs, and programs started \
with another LD_PRELOAD.

Files are named as seen from here, wherever the program goes.

Exit status: the program's own (128 + signal if one killed it); 126 or 127 if it cannot be started; 125 \
if a file of --profile or --report cannot be written (then the program is not started), or was not \
though the program succeeded.")]
pub struct Args {
    /// Say nothing after the program has ended.
    #[arg(short, long)]
    quiet: bool,
    /// Do not give freed memory back while the program runs (FREEHOLD_PURGE=off).
    #[arg(long)]
    no_purge: bool,
    /// Count every call exactly; calls become slower (FREEHOLD_STATS=on).
    #[arg(long)]
    stats: bool,
    /// Check frees at once, wipe and quarantine freed blocks, fence large ones (FREEHOLD_SECURE=on).
    #[arg(long)]
    secure: bool,
    /// Refuse requests once a process's heap holds so much: 500M, 2G (FREEHOLD_LIMIT).
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    limit: Option<u64>,
    /// Write a sampled heap profile for pprof when the program ends (FREEHOLD_PROFILE); %p is the process.
    #[arg(long, value_name = "FILE")]
    profile: Option<OsString>,
    /// Write statistics when a process ends (FREEHOLD_REPORT); %p is the process.
    #[arg(long, value_name = "FILE")]
    report: Option<OsString>,
    /// Print the path of the library instead of running anything.
    #[arg(long, exclusive = true)]
    library: bool,
    /// The program and its arguments.
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "library"
    )]
    program: Vec<OsString>,
}

/// As `FREEHOLD_LIMIT` takes it.
fn limit(text: &str) -> Result<u64, String> {
    match ui::bytes(text)? {
        0..0x10_0000 => Err("at least 1M is wanted".to_owned()),
        bytes => Ok(bytes),
    }
}

/// What a program cost, by the kernel's account of it and of all it waited for.
struct Cost {
    wall: Duration,
    user: Duration,
    system: Duration,
    peak_bytes: u64,
    faults: u64,
}

/// Runs the program, or prints the path.
pub fn run(args: Args) -> Result<ExitCode> {
    let library = MALLOC.unpack()?;
    let Some((program, arguments)) = args.program.split_first() else {
        ui::print(format_args!("{}\n", library.display()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let asked = match files(&args) {
        Ok(asked) => asked,
        Err(refused) => {
            eprintln!("freehold run: {}", ui::in_one_line(&refused));
            return Ok(ExitCode::from(EXIT_UNWRITTEN));
        }
    };
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preload(library.into_os_string()));
    set_options(&mut command, &args);
    asked.iter().for_each(|file| file.hand_to(&mut command));
    // Whoever asked for a report gets it; we do without.
    let reports = args.report.is_some() || std::env::var_os("FREEHOLD_REPORT").is_some();
    let folder = match args.quiet || reports {
        true => None,
        false => Some(tempfile::tempdir().context("a folder for the reports of the heap")?),
    };
    if let Some(folder) = &folder {
        command.env("FREEHOLD_REPORT", heap::variable(folder.path()));
    }
    let started = Instant::now();
    let (pid, status) = match wait(&mut command)? {
        Ok(ended) => ended,
        Err(error) => {
            let refusal = launch::explain(program, &error);
            eprintln!("freehold run: {refusal}");
            return Ok(ExitCode::from(refusal.status()));
        }
    };
    if !args.quiet {
        tell(&cost(started.elapsed())?);
    }
    if let Some(folder) = &folder {
        for line in heap::tell(folder.path(), pid)? {
            eprintln!("freehold run: {line}");
        }
    }
    let unwritten: Vec<_> = asked.iter().filter(|file| !file.was_written()).collect();
    unwritten.iter().for_each(|file| eprintln!("freehold run: {}", file.complaint()));
    Ok(match (code(status), unwritten.is_empty()) {
        (0, false) => ExitCode::from(EXIT_UNWRITTEN),
        (code, _) => ExitCode::from(code),
    })
}

/// What was asked for cannot be written, or was not.
const EXIT_UNWRITTEN: u8 = 125;

/// The files that the program is to write at its end, found writable.
fn files(args: &Args) -> Result<Vec<Asked>> {
    let options = [
        ("--profile", "FREEHOLD_PROFILE", &args.profile),
        ("--report", "FREEHOLD_REPORT", &args.report),
    ];
    let given = options.into_iter().filter_map(|(option, variable, file)| {
        file.as_ref().map(|file| Asked::new(option, variable, file))
    });
    given.collect()
}

fn set_options(command: &mut Command, args: &Args) {
    for (given, name, value) in [
        (args.no_purge, "FREEHOLD_PURGE", "off"),
        (args.stats, "FREEHOLD_STATS", "on"),
        (args.secure, "FREEHOLD_SECURE", "on"),
    ] {
        if given {
            command.env(name, value);
        }
    }
    if let Some(bytes) = args.limit {
        command.env("FREEHOLD_LIMIT", bytes.to_string());
    }
}

/// Our library before what is preloaded already.
fn preload(mut ours: OsString) -> OsString {
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        ours.push(":");
        ours.push(others);
    }
    ours
}

/// Runs the program to its end; the inner error says why it could not be started. What the terminal sends is the
/// program's, and what is sent to us alone is passed on to it.
fn wait(command: &mut Command) -> Result<io::Result<(u32, ExitStatus)>> {
    signals::catch();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(error)),
    };
    signals::pass_to(child.id() as i32);
    let ended = await_end(child.id());
    // Before the child is reaped: its number may be another's then.
    signals::pass_to(0);
    let status = ended.and_then(|()| child.wait()).context("the program was lost")?;
    Ok(Ok((child.id(), status)))
}

/// Waits without reaping.
fn await_end(child: u32) -> io::Result<()> {
    loop {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the kernel writes the structure.
        let waited = unsafe {
            libc::waitid(libc::P_PID, child, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT)
        };
        let error = io::Error::last_os_error();
        if waited == 0 {
            return Ok(());
        }
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.map_or(1, |code| code as u8)
}

fn cost(wall: Duration) -> Result<Cost> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes the structure, which is valid when zero.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error()).context("getrusage");
        }
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(Cost {
        wall,
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        peak_bytes: usage.ru_maxrss as u64 * 1024,
        faults: (usage.ru_minflt + usage.ru_majflt) as u64,
    })
}

fn tell(cost: &Cost) {
    eprintln!(
        "freehold run: {:.2} s, CPU {:.2} s user and {:.2} s system; peak memory {:.1} MiB; {} page faults",
        cost.wall.as_secs_f64(),
        cost.user.as_secs_f64(),
        cost.system.as_secs_f64(),
        cost.peak_bytes as f64 / (1 << 20) as f64,
        cost.faults,
    );
}
