//! A worker: a process that reads cells from standard input, a line each, and answers with what each found.
//!
//! It is a process, not a thread, so that what ends it (memory, a defect, an operator) costs one cell. It ends when its
//! standard input does.

use super::found::{Found, Kind};
use super::limit::Limit;
use super::plan::{Cell, Subject};
use super::rows::Replayed;
use crate::malloc::{self, Settings};
use crate::selection::Selection;
use crate::simulate::{self, Options, Survey};
use freehold_trace::{ProcessId, Trace};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Studies that are a function of their settings and write rows.
const STUDIES: [&str; 3] = ["banks", "dmrt", "mesh"];

/// What a worker answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// What the cell found.
    pub found: Found,
    /// How long the cell itself took: the replay, or the study.
    pub seconds: f64,
}

/// Serves until there are no more cells. `exe` is this command, for studies, which work in `scratch`.
///
/// # Errors
/// When the parent cannot be read or written.
pub fn serve(
    cells: impl BufRead,
    mut answers: impl Write,
    exe: &Path,
    scratch: &Path,
) -> io::Result<()> {
    end_first_when_memory_is_short();
    let mut last: Option<Opened> = None;
    for line in cells.lines() {
        let cell: Cell = serde_json::from_str(&line?)?;
        let mut seconds = 0.0;
        let found = match &cell.subject {
            Subject::Replay { trace, on, limit } => {
                replay(&mut last, trace, on, *limit, &cell.set, &mut seconds)
            }
            Subject::Study { name, quick } => {
                let began = Instant::now();
                let found = study(exe, scratch, name, *quick, &cell.set);
                seconds = began.elapsed().as_secs_f64();
                found
            }
        };
        let found = found.unwrap_or_else(Found::failed);
        serde_json::to_writer(&mut answers, &Answer { found, seconds })?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

/// If the machine's memory ends, the kernel shall choose this process and not the user's others. Refused: it chooses as it likes.
fn end_first_when_memory_is_short() {
    let _ = fs::write("/proc/self/oom_score_adj", "900");
}

/// The trace of the last cell: the next one is mostly of the same.
struct Opened {
    path: PathBuf,
    trace: Trace,
    survey: Survey,
}

impl Opened {
    fn at(path: &Path) -> Result<Opened, String> {
        let named = |why: String| {
            // Where the trace lies is no part of a result.
            why.replace(&path.display().to_string(), &super::plan::file_name(path))
        };
        let trace = Trace::open(path).map_err(|error| named(in_one_line(&error)))?;
        let never = AtomicBool::new(false);
        let process = simulate::heaviest(&trace, &mut |_, _| (), &never);
        let process = process.map_err(|error| named(in_one_line(&error)))?;
        let process = process.ok_or("the trace holds no event at all: nothing was recorded")?;
        let survey = simulate::survey(&trace, process, &mut |_, _| (), &never);
        let survey = survey.map_err(|error| named(in_one_line(&error)))?;
        Ok(Opened { path: path.to_owned(), trace, survey })
    }
}

/// The error and its causes, those left out that are said already.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !line.contains(&said) {
            line = format!("{line}: {said}");
        }
        cause = error.source();
    }
    line
}

fn replay(
    last: &mut Option<Opened>,
    path: &Path,
    on: &str,
    limit: Limit,
    set: &[(String, String)],
    seconds: &mut f64,
) -> Result<Found, String> {
    let on = Selection::parse(on, &[]).map_err(|error| error.to_string())?;
    let settings = settings(set)?;
    let opened = match last.take().filter(|opened| opened.path == path) {
        Some(opened) => opened,
        None => Opened::at(path)?,
    };
    let Opened { trace, survey, .. } = last.insert(opened);
    let limit = limit.bytes(survey.peak_live);
    let process = ProcessId(survey.facts.process);
    let never = AtomicBool::new(false);
    let began = Instant::now();
    let outcome = if on.malloc {
        let settings = Settings { limit, ..settings };
        malloc::replay(trace, process, survey, &settings, &mut |_, _| (), &never)
            .map(|(outcome, _)| vec![outcome])
    } else {
        let options = Options { process, limit };
        simulate::replay(trace, survey, &on.policies, options, &mut |_, _| (), &never)
            .map(|all| all.into_iter().map(|one| one.outcome).collect())
    };
    *seconds = began.elapsed().as_secs_f64();
    let outcomes = outcome.map_err(|error| in_one_line(&error))?;
    let outcome = outcomes.first().ok_or("nothing to replay on")?;
    Ok(Replayed { survey, limit, outcome }.found())
}

fn settings(set: &[(String, String)]) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (name, value) in set {
        settings.set(&format!("{name}={value}")).map_err(|error| error.to_string())?;
    }
    Ok(settings)
}

/// Runs the study as a command of its own, and reads its rows.
fn study(
    exe: &Path,
    scratch: &Path,
    name: &str,
    quick: bool,
    set: &[(String, String)],
) -> Result<Found, String> {
    if !STUDIES.contains(&name) {
        let all = STUDIES.join(", ");
        return Err(format!("no study that can be swept over is called {name:?}; there are {all}"));
    }
    let folder = tempfile::tempdir_in(scratch)
        .map_err(|error| format!("{} cannot be written: {error}", scratch.display()))?;
    let mut command = Command::new(exe);
    command.args(["study", name, "--out"]).arg(folder.path());
    command.args(quick.then_some("--quick"));
    command.args((name == "banks").then_some("--no-times"));
    for (name, value) in set {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = output.map_err(|error| format!("the study cannot be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next_back().unwrap_or("it failed").trim_start_matches("freehold: ");
        return Err(said.to_owned());
    }
    let files = fs::read_dir(folder.path()).map_err(|error| error.to_string())?;
    let mut paths = files.flatten().map(|file| file.path());
    let rows = paths.find(|path| path.extension().is_some_and(|end| end == "parquet"));
    let rows = rows.ok_or("the study wrote no rows")?;
    read_rows(&rows).map_err(|error| format!("the study's rows cannot be read: {error}"))
}

fn read_rows(path: &Path) -> Result<Found, parquet::errors::ParquetError> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let mut found = Found::default();
    for column in reader.metadata().file_metadata().schema_descr().columns() {
        let kind = match column.physical_type() {
            parquet::basic::Type::BYTE_ARRAY => Kind::Text,
            parquet::basic::Type::DOUBLE => Kind::Real,
            _ => Kind::Whole,
        };
        found.columns.push((column.name().to_owned(), kind));
    }
    for row in reader.get_row_iter(None)? {
        found.rows.push(row?.get_column_iter().map(|(_, field)| value(field)).collect());
    }
    Ok(found)
}

fn value(field: &Field) -> Value {
    match field {
        Field::Str(text) => json!(text),
        Field::Long(number) => json!(number),
        Field::Double(number) => json!(number),
        _ => Value::Null,
    }
}
