//! A recorded machine's page trace: text as it is, `trace-cmd`'s binary file by way of `trace-cmd report`; a malloc
//! trace, turned into pages.

use anyhow::{Context, Result, bail};
use freehold_lab::studies::banks::{self, PageTrace};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a file of trace-cmd begins with (trace-cmd.dat(5), "INITIAL FORMAT").
const TRACE_DAT: &[u8] = b"\x17\x08\x44tracing";

/// Reads `path`, whichever it is, and says what is missing in it.
pub fn read(path: &Path) -> Result<PageTrace> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name} cannot be read"))?;
    let mut file = BufReader::new(file);
    let binary =
        file.fill_buf().with_context(|| format!("{name} cannot be read"))?.starts_with(TRACE_DAT);
    let trace = if binary {
        report(path)?
    } else if file.fill_buf().is_ok_and(freehold_trace::is_trace) {
        let trace = freehold_trace::Trace::open(path)?;
        banks::pages(&trace).with_context(|| name.to_string())?
    } else {
        PageTrace::read(file).with_context(|| name.to_string())?
    };
    if trace.lost_frees > 0 {
        eprintln!(
            "freehold: {name}: {} frees are missing; the recording lost events",
            trace.lost_frees
        );
    }
    Ok(trace)
}

/// What `trace-cmd report` prints of a binary file.
fn report(path: &Path) -> Result<PageTrace> {
    let name = path.display();
    let mut child = match started(path) {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "{name} is trace-cmd's binary file, which trace-cmd has to print, and there is no such command here: \
             install it, or bring what `trace-cmd report` prints elsewhere"
        ),
        Err(error) => {
            return Err(error).with_context(|| format!("trace-cmd, to print {name}"));
        }
    };
    // Both are read at once: a pipe that nobody empties would stop it.
    let errors = child.stderr.take().map(|mut errors| {
        std::thread::spawn(move || {
            let mut said = String::new();
            // What it says is only for a message.
            let _ = errors.read_to_string(&mut said);
            said
        })
    });
    let printed = child.stdout.take().map(|out| PageTrace::read(BufReader::new(out)));
    let status = child.wait().with_context(|| format!("trace-cmd, to print {name}"))?;
    let said = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
    // A signal ends it where its output is not what it should be and is read no further.
    if status.code().is_some_and(|code| code != 0) {
        bail!("trace-cmd report cannot print {name}: {status}: {}", said.trim());
    }
    let Some(printed) = printed else { bail!("trace-cmd report printed nothing of {name}") };
    printed.with_context(|| format!("{name}, as trace-cmd report prints it"))
}

fn started(path: &Path) -> std::io::Result<Child> {
    Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}
