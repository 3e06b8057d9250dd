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
use crate::simulate::{self, Options, SimulateError, Survey};
use freehold_trace::{OpenError, ProcessId, Trace};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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
    /// Whether it would be found anywhere and at any time.
    pub lasts: bool,
}

/// Why a cell has no result.
#[derive(Debug)]
enum Failure {
    /// It has none anywhere: its trace, policy or setting is wrong.
    OfCell(String),
    /// This machine had not what it takes: memory, room on a disk, a file that can be read. Another attempt may succeed.
    OfMachine(String),
}

impl Failure {
    fn of_cell(why: impl ToString) -> Failure {
        Failure::OfCell(why.to_string())
    }

    fn of_machine(why: impl ToString) -> Failure {
        Failure::OfMachine(why.to_string())
    }

    /// What the dataset says, and whether it lasts.
    fn found(self) -> (Found, bool) {
        match self {
            Failure::OfCell(why) => (Found::failed(why), true),
            Failure::OfMachine(why) => {
                (Found::failed(format!("{why}; the same command tries it again")), false)
            }
        }
    }
}

impl From<SimulateError> for Failure {
    fn from(error: SimulateError) -> Failure {
        let why = in_one_line(&error);
        match error {
            SimulateError::Read(_) | SimulateError::Memory { .. } => Failure::OfMachine(why),
            _ => Failure::OfCell(why),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let why = in_one_line(&error);
        match error {
            OpenError::Io { .. } => Failure::OfMachine(why),
            _ => Failure::OfCell(why),
        }
    }
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
        let (found, lasts) = found.map_or_else(Failure::found, |found| (found, true));
        serde_json::to_writer(&mut answers, &Answer { found, seconds, lasts })?;
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
    fn at(path: &Path) -> Result<Opened, Failure> {
        Opened::try_at(path).map_err(|failure| {
            // Where the trace lies is no part of a result.
            let named = |why: String| {
                why.replace(&path.display().to_string(), &super::plan::file_name(path))
            };
            match failure {
                Failure::OfCell(why) => Failure::OfCell(named(why)),
                Failure::OfMachine(why) => Failure::OfMachine(named(why)),
            }
        })
    }

    fn try_at(path: &Path) -> Result<Opened, Failure> {
        let trace = Trace::open(path)?;
        let never = AtomicBool::new(false);
        let process = simulate::heaviest(&trace, &mut |_, _| (), &never)?;
        let nothing = "the trace holds no event at all: nothing was recorded";
        let process = process.ok_or_else(|| Failure::of_cell(nothing))?;
        let survey = simulate::survey(&trace, process, &mut |_, _| (), &never)?;
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
) -> Result<Found, Failure> {
    let on = Selection::parse(on, &[]).map_err(Failure::of_cell)?;
    let settings = settings(set).map_err(Failure::OfCell)?;
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
    let outcomes = outcome?;
    let outcome = outcomes.first().ok_or_else(|| Failure::of_cell("nothing to replay on"))?;
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
) -> Result<Found, Failure> {
    if !STUDIES.contains(&name) {
        let all = STUDIES.join(", ");
        let why = format!("no study that can be swept over is called {name:?}; there are {all}");
        return Err(Failure::OfCell(why));
    }
    let unwritten =
        |error| Failure::OfMachine(format!("{} cannot be written: {error}", scratch.display()));
    let folder = tempfile::tempdir_in(scratch).map_err(unwritten)?;
    let mut command = Command::new(exe);
    command.args(["study", name, "--out"]).arg(folder.path());
    command.args(quick.then_some("--quick"));
    command.args((name == "banks").then_some("--no-times"));
    for (name, value) in set {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = output
        .map_err(|error| Failure::OfMachine(format!("the study cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(failed(&output));
    }
    let files = fs::read_dir(folder.path()).map_err(Failure::of_machine)?;
    let mut paths = files.flatten().map(|file| file.path());
    let rows = paths.find(|path| path.extension().is_some_and(|end| end == "parquet"));
    let rows = rows.ok_or_else(|| Failure::of_cell("the study wrote no rows"))?;
    read_rows(&rows)
        .map_err(|error| Failure::OfMachine(format!("the study's rows cannot be read: {error}")))
}

/// What a study that failed said. It does not say whether its settings or this machine are to blame; wrong settings are refused at
/// once, so to try them again costs nothing.
fn failed(output: &Output) -> Failure {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next_back().map(|line| line.trim_start_matches("freehold: "));
    Failure::OfMachine(
        said.map_or_else(|| format!("the study ended: {}", output.status), str::to_owned),
    )
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
