//! `freehold study malloc`: which mechanism of the malloc earns its place, and whether the simulation is held to reality.

use super::outputs::{Outputs, wrapped};
use super::recorded::{Recorded, Recording};
use crate::{embedded, ui};
use anyhow::{Context, Result};
use freehold_lab::human;
use freehold_lab::real::{self, Allocator};
use freehold_lab::results::Causes;
use freehold_lab::simulate::SimulateError;
use freehold_lab::studies::fragmentation::Program;
use freehold_lab::studies::malloc::{self, Cost, Found, Plan, Results, Row, Variant, Verdict};
use freehold_trace::Trace;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Programs with --quick.
const QUICK: usize = 3;

/// Replay recorded programs on Freehold's malloc (simulated, exact), with each of its decisions switched.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  freehold study malloc
  freehold study malloc --quick                 three programs
  freehold study malloc --only sqlite3,perl --decisions reserve.bytes,purge.slabs
  freehold study malloc --held-to-reality       replay the traces on libfreehold.so, too, and compare the peaks
  freehold study malloc --instructions          count instructions by valgrind, too: about an hour
  freehold study malloc mine.toml --out mine    with programs of one's own, in the form of studies/malloc.toml

A decision is switched off, or to a quarter where there is no off; `freehold replay --decisions` lists them. A mechanism \
earns its place if at least one program needs more than 1 % of memory (peak or mean) or of instructions without it. Traces go to \
--out and are used again by the next run; remove one to record it anew. A program whose tools are missing is named as missing.")]
pub struct Args {
    /// Programs of one's own, in the form of studies/malloc.toml.
    file: Option<PathBuf>,
    /// The folder for traces and results; made if it is missing.
    #[arg(short, long, value_name = "FOLDER", default_value = "study-malloc")]
    out: PathBuf,
    /// The first three programs only.
    #[arg(long)]
    quick: bool,
    /// These programs only, by their names, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "quick")]
    only: Vec<String>,
    /// Switch these decisions only, separated by commas; `none` switches none.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    decisions: Vec<String>,
    /// Replay each trace on the real library, too, and compare the peaks of resident memory.
    #[arg(long)]
    held_to_reality: bool,
    /// Count the instructions of the first 300,000 events of each program, too (valgrind): about an hour.
    #[arg(long)]
    instructions: bool,
    /// Print the results as JSON instead of tables (schema version 1: crates/lab/src/studies/malloc/results.rs).
    #[arg(long)]
    json: bool,
    /// Print the file of the study that ships.
    #[arg(long)]
    print: bool,
}

impl Args {
    /// The command as it could be typed again.
    fn command_line(&self) -> String {
        let mut words = vec!["freehold study malloc".to_owned()];
        words.extend(self.file.as_ref().map(|file| ui::quoted(&file.display().to_string())));
        words.extend(self.quick.then(|| "--quick".to_owned()));
        let list = |option: &str, list: &[String]| {
            (!list.is_empty()).then(|| format!("--{option} {}", ui::quoted(&list.join(","))))
        };
        words.extend(list("only", &self.only));
        words.extend(list("decisions", &self.decisions));
        words.extend(self.held_to_reality.then(|| "--held-to-reality".to_owned()));
        words.extend(self.instructions.then(|| "--instructions".to_owned()));
        words.join(" ")
    }

    /// The programs, and the folder of their file where it is a user's.
    fn plan(&self) -> Result<(Plan, Option<PathBuf>)> {
        let (mut plan, studies) = match &self.file {
            None => (Plan::parse("the study", malloc::DEFAULT)?, None),
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
                let folder = fs::canonicalize(path)?.parent().map(Path::to_owned);
                (Plan::parse(&name, &text)?, folder)
            }
        };
        if self.quick {
            plan.programs.truncate(QUICK);
        }
        let all: Vec<String> = plan.programs.iter().map(|one| one.name.clone()).collect();
        known("--only", &self.only, all.iter().map(String::as_str))?;
        plan.programs.retain(|one| self.only.is_empty() || self.only.contains(&one.name));
        Ok((plan, studies))
    }

    fn variants(&self) -> Result<Vec<Variant>> {
        let mut all = Variant::all();
        let names = all.iter().map(|one| one.decision).chain(["none"]);
        known("--decisions", &self.decisions, names)?;
        let chosen = |one: &Variant| self.decisions.iter().any(|name| name == one.decision);
        all.retain(|one| self.decisions.is_empty() || chosen(one));
        Ok(all)
    }
}

/// Refuses a name that is not among those known, and lists these.
fn known<'a>(
    option: &str,
    names: &[String],
    all: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    match names.iter().find(|name| !all.clone().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => {
            let all = all.collect::<Vec<_>>().join(", ");
            let why = format!("{option}: nothing is called {name:?}; there are {all}");
            Err(ui::WrongCommandLine(why).into())
        }
    }
}

/// Records, replays, prints and writes.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.print {
        ui::print(malloc::DEFAULT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (plan, studies) = args.plan()?;
    let variants = args.variants()?;
    let outputs = Outputs::in_folder(&args.out, None)?;
    let out = fs::canonicalize(&args.out)?;
    let interrupted = ui::interrupted();
    let mut work = Work {
        args: &args,
        variants: &variants,
        out: &out,
        studies: studies.as_deref(),
        interrupted: &interrupted,
        bar: ui::Progress::new("recording, replaying"),
        programs: plan.programs.len(),
        done: 0,
    };
    let mut found = Vec::new();
    for program in &plan.programs {
        match work.measure(program)? {
            Some(one) => found.push(one),
            None => return Ok(ExitCode::from(ui::EXIT_INTERRUPTED)),
        }
    }
    drop(work);
    let results = Results::of(&variants, found);
    outputs.write(&malloc::page(&results, &args.command_line()), &results)?;
    outputs.print(args.json, &results, |to| print(to, &results))?;
    Ok(ExitCode::SUCCESS)
}

/// What all programs share, and how far they are.
struct Work<'a> {
    args: &'a Args,
    variants: &'a [Variant],
    out: &'a Path,
    studies: Option<&'a Path>,
    interrupted: &'a AtomicBool,
    bar: ui::Progress,
    programs: usize,
    done: usize,
}

impl Work<'_> {
    /// Records and replays one program; `None` when interrupted.
    fn measure(&mut self, program: &Program) -> Result<Option<Found>> {
        let path = match self.recorded(program)? {
            Recorded::At(path) => path,
            Recorded::Missing(why) => return Ok(Some(self.missing(program, &why))),
            Recorded::Interrupted => return Ok(None),
        };
        let trace = Trace::open(&path)?;
        let found = match self.replayed(program, &trace) {
            Err(SimulateError::Interrupted) => return Ok(None),
            other => other.with_context(|| program.name.clone())?,
        };
        let Some(mut found) = found else {
            return Ok(Some(self.missing(program, "it allocated nothing that could be recorded")));
        };
        if self.args.held_to_reality && !self.hold(&trace, &mut found)? {
            return Ok(None);
        }
        if self.args.instructions && !self.count(&path, &mut found)? {
            return Ok(None);
        }
        self.done += 1;
        Ok(Some(found))
    }

    fn missing(&mut self, program: &Program, why: &str) -> Found {
        self.done += 1;
        Found::missing(program, why.to_owned())
    }

    fn recorded(&mut self, program: &Program) -> Result<Recorded> {
        let recording = Recording {
            program,
            output: self.out.join(format!("{}.fht", program.name)),
            padding: 0,
            studies: self.studies,
            interrupted: self.interrupted,
        };
        if recording.is_needed() {
            let (name, about) = (&program.name, &program.about);
            self.bar.say(&format!("freehold: recording {name}: {about}"));
        }
        recording.make(&mut |share| self.show(0.1 * share))
    }

    fn replayed(
        &mut self,
        program: &Program,
        trace: &Trace,
    ) -> Result<Option<Found>, SimulateError> {
        let (variants, interrupted) = (self.variants, self.interrupted);
        let mut progress = |done: u64, total: u64| {
            self.show(0.1 + 0.9 * done as f64 / f64::max(total as f64, 1.0));
        };
        malloc::replay(trace, program, variants, &mut progress, interrupted)
    }

    /// Compares with the real library; `false` when interrupted.
    fn hold(&mut self, trace: &Trace, found: &mut Found) -> Result<bool> {
        let library = embedded::MALLOC.unpack()?;
        let library: Allocator = real::find("freehold", &[("freehold", &library)])?;
        let replayer = embedded::REPLAYER.unpack()?;
        let interrupted = self.interrupted;
        let mut progress = |_, _| self.show(0.99);
        match malloc::hold(trace, &library, &replayer, &mut progress, interrupted) {
            Ok(held) => found.held = held,
            Err(error) if error.is_interruption() => return Ok(false),
            Err(error) => return Err(error).with_context(|| found.name.clone()),
        }
        Ok(true)
    }

    /// Counts instructions in all variants, two at a time; `false` when interrupted.
    fn count(&mut self, trace: &Path, found: &mut Found) -> Result<bool> {
        let own = std::env::current_exe().context("cannot find this command's own file")?;
        let variants: Vec<Option<Variant>> = found.variants().collect();
        let mut counted = Vec::new();
        for pair in variants.chunks(2) {
            if ui::is_raised(self.interrupted) {
                return Ok(false);
            }
            let count =
                |variant: &Option<Variant>| malloc::count(&own, trace, found, variant.as_ref());
            let both: Vec<_> = std::thread::scope(|scope| {
                let jobs: Vec<_> = pair.iter().map(|one| scope.spawn(|| count(one))).collect();
                jobs.into_iter().filter_map(|job| job.join().ok()).collect()
            });
            for one in both {
                counted.push(one?);
            }
            self.show(0.99);
        }
        found.set_instructions(&counted);
        Ok(true)
    }

    /// Shows that `share` of this program's work is done.
    fn show(&mut self, share: f64) {
        const UNITS: usize = 1000;
        let done = self.done * UNITS + (share * UNITS as f64) as usize;
        self.bar.set(done as u64, (self.programs * UNITS) as u64);
    }
}

fn print(to: &mut dyn Write, results: &Results) -> io::Result<()> {
    print_programs(to, results)?;
    print_held(to, results)?;
    print_verdicts(to, results)?;
    results.answer().iter().try_for_each(|text| writeln!(to, "\n{}", wrapped(text)))
}

fn print_programs(to: &mut dyn Write, results: &Results) -> io::Result<()> {
    let heads = Causes::default().columns().map(|(name, _)| name);
    write!(to, "{:11}{:>9}{:>10}", "program", "peak", "mean")?;
    heads.iter().try_for_each(|head| write!(to, "{head:>14}"))?;
    writeln!(to)?;
    for found in &results.programs {
        match (&found.shipped, &found.missing) {
            (Some(row), None) => print_row(to, &found.name, row)?,
            (_, why) => {
                writeln!(to, "{:11} missing: {}", found.name, why.as_deref().unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

fn print_row(to: &mut dyn Write, name: &str, row: &Row) -> io::Result<()> {
    write!(to, "{name:11}{:>9}{:>10}", human::bytes(row.peak), human::bytes(row.mean))?;
    let bytes = row.at_peak.columns();
    bytes.iter().try_for_each(|(_, bytes)| write!(to, "{:>14}", human::bytes(*bytes)))?;
    writeln!(to)
}

fn print_held(to: &mut dyn Write, results: &Results) -> io::Result<()> {
    let held: Vec<_> =
        results.replayed().filter_map(|one| Some((one, one.held.as_ref()?))).collect();
    if held.is_empty() {
        return Ok(());
    }
    writeln!(
        to,
        "\n{:11}{:>11}{:>11}{:>24}{:>17}{:>12}",
        "program", "simulated", "real", "least to most", "of that library", "difference"
    )?;
    for (found, one) in held {
        let range = format!("{} to {}", human::bytes(one.real_least), human::bytes(one.real_most));
        writeln!(
            to,
            "{:11}{:>11}{:>11}{range:>24}{:>17}{:>10.2} %",
            found.name,
            human::bytes(one.simulated),
            human::bytes(one.real),
            human::bytes(one.library),
            100.0 * one.share()
        )?;
    }
    Ok(())
}

fn print_verdicts(to: &mut dyn Write, results: &Results) -> io::Result<()> {
    if results.verdicts.is_empty() {
        return Ok(());
    }
    let heads = ["peak", "mean", "instructions", "faults"];
    write!(to, "\n{:22}{:10}", "switched", "how")?;
    heads.iter().try_for_each(|head| write!(to, "{head:>21}"))?;
    writeln!(to, "  earns by")?;
    for Verdict { decision, how, peak, mean, instructions, faults, earns_by, .. } in
        &results.verdicts
    {
        write!(to, "{decision:22}{how:10}")?;
        for cost in [peak, mean, instructions, faults] {
            write!(to, "{:>21}", shown(cost.as_ref()))?;
        }
        let by = if earns_by.is_empty() { "–".to_owned() } else { earns_by.join(", ") };
        writeln!(to, "  {by}")?;
    }
    Ok(())
}

/// `+3.12 % python3`.
fn shown(cost: Option<&Cost>) -> String {
    cost.map_or("–".to_owned(), |one| format!("{:+.2} % {}", 100.0 * one.share, one.program))
}
