//! A study's program, recorded once, in an environment that the study determines.

use crate::{embedded, ui};
use anyhow::{Context, Result, bail};
use freehold_collect::{Options, RecordError, Stage, WhichStacks};
use freehold_lab::studies::fragmentation::{INPUTS, Program};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

/// A trace, or why there is none.
pub enum Recorded {
    /// Here.
    At(PathBuf),
    /// Something is missing on this machine, said in a clause.
    Missing(String),
    /// The user asked to stop.
    Interrupted,
}

/// What is recorded, and where to.
pub struct Recording<'a> {
    /// The program.
    pub program: &'a Program,
    /// The trace.
    pub output: PathBuf,
    /// Variables that its environment has more than it needs.
    pub padding: usize,
    /// The folder of the study's file; `None`: the inputs that ship.
    pub studies: Option<&'a Path>,
    /// Raised when the user asks to stop.
    pub interrupted: &'a AtomicBool,
}

impl Recording<'_> {
    /// Whether the trace is missing, and the program is not.
    pub fn is_needed(&self) -> bool {
        !self.output.is_file() && self.lacks().is_none()
    }

    fn lacks(&self) -> Option<&str> {
        let path = std::env::var_os("PATH");
        let folders = path.map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
        self.program.lacks(&folders.unwrap_or_default())
    }

    /// Records the program, unless its trace is there already. Progress is a share from 0 to 1.
    ///
    /// # Errors
    /// When the program's setup fails, or the trace cannot be written.
    pub fn make(self, progress: &mut dyn FnMut(f64)) -> Result<Recorded> {
        if ui::is_raised(self.interrupted) {
            return Ok(Recorded::Interrupted);
        }
        if self.output.is_file() {
            return Ok(Recorded::At(self.output));
        }
        if let Some(name) = self.lacks() {
            return Ok(Recorded::Missing(format!("{name} is not installed")));
        }
        let folder = tempfile::Builder::new().prefix("freehold-").tempdir();
        let folder = folder.context("programs need a temporary folder; set TMPDIR to one")?;
        let options = self.prepare(folder.path())?;
        self.record(options, progress)
    }

    /// Runs the program's setup in `folder`.
    fn prepare(&self, folder: &Path) -> Result<Options> {
        let studies = match self.studies {
            Some(studies) => studies.to_owned(),
            None => unpack_inputs(folder)?,
        };
        let environment = self.program.environment_in(folder, self.padding);
        set_up(self.program, folder, &environment)?;
        let own = std::env::current_exe().context("cannot find this command's own file")?;
        let own = own.display().to_string();
        let words = self.program.command_in(folder, &studies).into_iter();
        let command = words.map(|word| OsString::from(word.replace("{freehold}", &own))).collect();
        Ok(Options {
            output: self.output.clone(),
            library: embedded::RECORD.unpack()?,
            stacks: WhichStacks::Off,
            check_stacks: false,
            command,
            environment: Some(environment),
            recorder: format!("freehold {}", env!("CARGO_PKG_VERSION")),
            mute: true,
        })
    }

    fn record(self, options: Options, progress: &mut dyn FnMut(f64)) -> Result<Recorded> {
        let recorded = freehold_collect::record(&options, &mut |stage| match stage {
            Stage::Recording { .. } => progress(0.0),
            Stage::Writing { done, total } => {
                progress((1.0 + done as f64 / f64::max(total as f64, 1.0)) / 2.0);
            }
        });
        if ui::is_raised(self.interrupted) {
            // What was cut short must not be taken for the program by the next run.
            let _ = fs::remove_file(&self.output);
            return Ok(Recorded::Interrupted);
        }
        match recorded {
            Ok(_) => Ok(Recorded::At(self.output)),
            Err(RecordError::Launch { .. }) => {
                Ok(Recorded::Missing("it could not be started".to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn unpack_inputs(folder: &Path) -> Result<PathBuf> {
    for (path, text) in INPUTS {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(folder.to_owned())
}

fn set_up(program: &Program, folder: &Path, environment: &[(OsString, OsString)]) -> Result<()> {
    let Some(script) = &program.setup else { return Ok(()) };
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(folder).env_clear();
    shell.envs(environment.iter().map(|(key, value)| (key, value)));
    let status = shell.stdout(Stdio::null()).stdin(Stdio::null()).status()?;
    if !status.success() {
        bail!("{}: its setup ended with {status}; try it with `sh -ex`", program.name);
    }
    Ok(())
}
