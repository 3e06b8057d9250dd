//! `freehold study fragmentation`: records named programs and replays them on policies.

use super::outputs::{Outputs, wrapped};
use super::recorded::{Recorded, Recording};
use crate::ui;
use anyhow::{Context, Result};
use freehold_lab::simulate::SimulateError;
use freehold_lab::studies::fragmentation::{
    self, Found, Judged, MEASURES, Plan, Program, Results, Tally,
};
use freehold_trace::Trace;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Recordings of each program with --quick.
const QUICK_RECORDINGS: usize = 2;

/// What a recording takes of the time for recording and replaying it, as a bar shows it.
const RECORDING_SHARE: f64 = 0.5;

/// Record programs that were named beforehand, and measure how policies fragment under them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study fragmentation
  freehold study fragmentation --quick                 two recordings of each program
  freehold study fragmentation mine.toml --out mine    with programs of one's own
  freehold study fragmentation --print                 print the study's file, and run nothing

Each program is recorded several times, in environments that differ only in how many variables there are, for what a \
program allocates depends on that. Policies are compared by their differences on the same recordings: at most \
(on average not above), no difference (above, but zero lies in the 95 % interval), more. Traces go to --out and are \
used again by the next run; remove one to record it anew. A program whose tools are missing is told as missing.")]
pub struct Args {
    /// A study of one's own, in the form of studies/fragmentation-traces.toml.
    file: Option<PathBuf>,
    /// The folder for traces and results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-fragmentation")]
    out: PathBuf,
    /// At most two recordings of each program: intervals are wide then.
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON instead of tables (schema version 3: crates/lab/src/studies/fragmentation/results.rs).
    #[arg(long)]
    json: bool,
    /// Print the file of the study that ships.
    #[arg(long)]
    print: bool,
}

impl Args {
    /// The command as it could be typed again.
    fn command_line(&self) -> String {
        let mut words = vec!["freehold study fragmentation".to_owned()];
        words.extend(self.file.as_ref().map(|file| ui::quoted(&file.display().to_string())));
        words.extend(self.quick.then(|| "--quick".to_owned()));
        words.join(" ")
    }
}

/// Records, measures, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.print {
        ui::print(fragmentation::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (plan, studies) = plan(&args)?;
    let outputs = Outputs::in_folder(&args.out, None)?;
    let out = fs::canonicalize(&args.out)?;
    let interrupted = ui::interrupted();
    let mut work = Work {
        plan: &plan,
        out: &out,
        studies: studies.as_deref(),
        interrupted: &interrupted,
        bar: ui::Progress::new("recording, replaying"),
        done: 0,
    };
    let mut traces = Vec::new();
    for program in &plan.programs {
        match work.measure(program)? {
            Some(found) => traces.push(found),
            None => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        }
    }
    drop(work);
    let results = Results::of(&plan, traces);
    outputs.write(&fragmentation::page(&results, &args.command_line()), &results)?;
    outputs.print(args.json, &results, |to| print(to, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// The study, and the folder of its file where it is a user's.
fn plan(args: &Args) -> Result<(Plan, Option<PathBuf>)> {
    let (mut plan, studies) = match &args.file {
        None => (Plan::parse("the study", fragmentation::DEFAULT)?, None),
        Some(path) => {
            let name = path.display().to_string();
            let text =
                fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
            let folder = fs::canonicalize(path)?.parent().map(Path::to_owned);
            (Plan::parse(&name, &text)?, folder)
        }
    };
    if args.quick {
        plan.recordings = plan.recordings.min(QUICK_RECORDINGS);
    }
    Ok((plan, studies))
}

/// What all programs share, and how far they are.
struct Work<'a> {
    plan: &'a Plan,
    out: &'a Path,
    studies: Option<&'a Path>,
    interrupted: &'a AtomicBool,
    bar: ui::Progress,
    /// Recordings that were replayed, or will not be.
    done: usize,
}

impl Work<'_> {
    /// Records and replays one program as often as planned; `None` when interrupted.
    fn measure(&mut self, program: &Program) -> Result<Option<Found>> {
        let done = self.done + self.plan.recordings;
        let found = self.recordings(program)?.map(|recordings| match recordings {
            Ok(recordings) => Found::of(self.plan, program, recordings),
            Err(why) => Found::missing(program, why),
        });
        self.done = done;
        Ok(found)
    }

    /// All of a program's recordings, or why one is missing.
    fn recordings(
        &mut self,
        program: &Program,
    ) -> Result<Option<Result<Vec<fragmentation::Recording>, String>>> {
        let mut recordings = Vec::new();
        for padding in self.plan.paddings() {
            let path = match self.recorded(program, padding)? {
                Recorded::At(path) => path,
                Recorded::Missing(why) => return Ok(Some(Err(why))),
                Recorded::Interrupted => return Ok(None),
            };
            match self.replayed(&Trace::open(&path)?, padding) {
                Ok(Some(recording)) => recordings.push(recording),
                Ok(None) => {
                    return Ok(Some(Err("it allocated nothing that could be recorded".to_owned())));
                }
                Err(SimulateError::Interrupted) => return Ok(None),
                Err(error) => return Err(error).with_context(|| program.name.clone()),
            }
            self.done += 1;
        }
        Ok(Some(Ok(recordings)))
    }

    fn replayed(
        &mut self,
        trace: &Trace,
        padding: usize,
    ) -> Result<Option<fragmentation::Recording>, SimulateError> {
        let (plan, interrupted) = (self.plan, self.interrupted);
        let mut progress = |done, total| {
            let share = done as f64 / f64::max(total as f64, 1.0);
            self.show(RECORDING_SHARE + share * (1.0 - RECORDING_SHARE));
        };
        fragmentation::replay(plan, padding, trace, &mut progress, interrupted)
    }

    /// Shows that `share` of this recording's work is done.
    fn show(&mut self, share: f64) {
        const UNITS: usize = 1000;
        let total = self.plan.programs.len() * self.plan.recordings * UNITS;
        let done = self.done * UNITS + (share * UNITS as f64) as usize;
        self.bar.set(done as u64, total as u64);
    }

    /// Records the program, unless its trace is there already.
    fn recorded(&mut self, program: &Program, padding: usize) -> Result<Recorded> {
        let recording = Recording {
            program,
            output: self.out.join(format!("{}-{padding:04}.fht", program.name)),
            padding,
            studies: self.studies,
            interrupted: self.interrupted,
        };
        if padding == 0 && recording.is_needed() {
            let (name, times, about) = (&program.name, self.plan.recordings, &program.about);
            self.bar.say(&format!("freehold: recording {name}, {times} times: {about}"));
        }
        recording.make(&mut |share| self.show(RECORDING_SHARE * share))
    }
}

fn print(to: &mut dyn Write, results: &Results) -> std::io::Result<()> {
    for found in &results.traces {
        if let Some(why) = &found.missing {
            writeln!(to, "{}: missing, {why}\n", found.name)?;
            continue;
        }
        let events = || found.recordings.iter().map(|one| one.events);
        let (least, most) = (events().min().unwrap_or(0), events().max().unwrap_or(0));
        let times = found.recordings.len();
        writeln!(to, "{} ({times} recordings, {least} to {most} events)", found.name)?;
        write!(to, "{:12}", "")?;
        MEASURES.iter().try_for_each(|measure| write!(to, "{:>22}", measure.title))?;
        writeln!(to)?;
        found.policies.iter().try_for_each(|policy| print_policy(to, policy))?;
        writeln!(to)?;
    }
    let rival = &results.target.at_most;
    let key = format!(
        "Means in percent; after each the difference to {rival} on the same recordings, in percentage points, \
         and its 95 % interval. ≤ at most (on average not above), ~ no difference (above, but zero lies in the \
         interval), > more."
    );
    writeln!(to, "{}\n", wrapped(&key))?;
    print_counted(to, results)?;
    writeln!(to, "\n{}", wrapped(&results.answer()))?;
    if results.note.is_empty() { Ok(()) } else { writeln!(to, "\n{}", wrapped(&results.note)) }
}

/// Every policy's verdicts, beside the target's two.
fn print_counted(to: &mut dyn Write, results: &Results) -> std::io::Result<()> {
    let beside_rival = format!("beside {}", results.target.at_most);
    let target_beside = format!("{} beside it", results.target.of);
    writeln!(to, "{:12}{beside_rival:>20}{target_beside:>20}   (≤ ~ > counted)", "")?;
    let show = |tally: Option<Tally>| {
        let counts = |t: Tally| format!("{:>3}{:>4}{:>4}", t.at_most, t.no_difference, t.more);
        tally.map_or_else(|| "–".to_owned(), counts)
    };
    results.counted.iter().try_for_each(|one| {
        let (beside_rival, target_beside) = (show(one.beside_rival), show(one.target_beside));
        writeln!(to, "{:12}{beside_rival:>20}{target_beside:>20}", one.name)
    })
}

/// ` 31.36  -0.004±0.001 ≤` for each measure.
fn print_policy(to: &mut dyn Write, policy: &Judged) -> std::io::Result<()> {
    write!(to, "{:12}", policy.name)?;
    for measure in &MEASURES {
        let Some(mean) = policy.measures.get(measure.key).map(|summary| summary.mean) else {
            write!(to, "{:>22}", "–")?;
            continue;
        };
        write!(to, "{:>6.2}", 100.0 * mean)?;
        match policy.to_rival.get(measure.key) {
            None => write!(to, "{:16}", "")?,
            Some(compared) => {
                let difference = &compared.difference;
                let (mean, half) = (100.0 * difference.mean, 100.0 * difference.half_width);
                write!(to, "{mean:>+8.3}±{half:<5.3} {}", compared.verdict.mark())?;
            }
        }
    }
    writeln!(to)
}
