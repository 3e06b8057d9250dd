//! One case: a command that passes or fails, in a folder of its own, within a time.

use super::column::{self, Way};
use anyhow::Context;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a case may take, unless its suite says otherwise.
const LIMIT: Duration = Duration::from_secs(600);

/// What stands for the case's own folder in its command.
pub const FOLDER: &str = "{folder}";

/// See the module.
#[derive(Clone)]
pub struct Case {
    /// What it is called in the report.
    pub name: String,
    /// Program and arguments; [`FOLDER`] in an argument is the folder it may write to.
    pub command: Vec<OsString>,
    /// More environment.
    pub env: Vec<(&'static str, String)>,
    /// Where it runs, if not in its own folder.
    pub at: Option<PathBuf>,
    /// What it prints must be what it printed under glibc.
    pub compared: bool,
    /// Words in its output that say that it did not run.
    pub skip_words: &'static [&'static str],
    /// How long it may take.
    pub limit: Duration,
    /// The ways in which it is run, besides glibc's.
    pub under: &'static [Way],
}

/// What became of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It passed, and printed this where that is compared.
    Passed(Vec<u8>),
    /// It says itself that it did not run.
    Skipped,
    /// How it failed.
    Failed(String),
}

impl Case {
    /// A case that passes if the command exits with 0.
    pub fn new<S: Into<OsString>>(
        name: impl Into<String>,
        command: impl IntoIterator<Item = S>,
    ) -> Case {
        Case {
            name: name.into(),
            command: command.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            at: None,
            compared: false,
            skip_words: &[],
            limit: LIMIT,
            under: column::PLAIN,
        }
    }

    /// Runs it once with `preload`, in `folder`, which is made for it and removed afterwards. What it
    /// prints goes to `log` (and `log` + `.err`).
    pub fn run(&self, preload: &str, folder: &Path, log: &Path) -> anyhow::Result<Verdict> {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder)?;
        let ended = self.start(preload, folder, log).and_then(|child| wait(child, self.limit));
        let _ = std::fs::remove_dir_all(folder);
        let said = std::fs::read(log)?;
        let complained = std::fs::read(error_log(log))?;
        let all = String::from_utf8_lossy(&said) + String::from_utf8_lossy(&complained);
        Ok(match ended? {
            None => Verdict::Failed(format!("not done after {} s", self.limit.as_secs())),
            Some(status) if !status.success() => Verdict::Failed(describe(status, &all)),
            Some(_) if self.skip_words.iter().any(|word| all.contains(word)) => Verdict::Skipped,
            Some(_) => Verdict::Passed(if self.compared { said } else { Vec::new() }),
        })
    }

    fn start(&self, preload: &str, folder: &Path, log: &Path) -> anyhow::Result<Child> {
        let own = folder.to_str().context("the target folder's path is not UTF-8")?;
        let words: Vec<OsString> = self
            .command
            .iter()
            .map(|word| word.to_str().map_or(word.clone(), |word| word.replace(FOLDER, own).into()))
            .collect();
        let program = words.first().context("an empty command")?;
        // In a group of its own, so that nothing that it signals is us; it dies with us all the same.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(&words);
        command.current_dir(self.at.as_deref().unwrap_or(folder));
        command.envs(self.env.iter().map(|(key, value)| (key, value.replace(FOLDER, own))));
        match preload {
            "" => command.env_remove("LD_PRELOAD"),
            library => command.env("LD_PRELOAD", library),
        };
        command.stdin(Stdio::null()).stdout(File::create(log)?);
        command.stderr(File::create(error_log(log))?).process_group(0);
        command.spawn().with_context(|| format!("{} cannot be started", program.display()))
    }
}

/// Where its standard error goes.
fn error_log(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".err");
    name.into()
}

/// Waits for the end; `None` when it took too long, and was killed with all its children.
pub fn wait(mut child: Child, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > until {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn describe(status: ExitStatus, said: &str) -> String {
    let ours = said.lines().find(|line| line.contains("freehold:"));
    let complaint = ours.or(said.lines().last()).unwrap_or_default();
    match status.signal() {
        Some(signal) => format!("signal {signal} {complaint}"),
        None => format!("exit {} {complaint}", status.code().unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let case = Case { limit, compared: true, ..Case::new("x", ["sh", "-c", script]) };
        case.run("", &folder.path().join("work"), &folder.path().join("log")).unwrap()
    }

    #[test]
    fn a_case_says_how_it_ended() {
        assert_eq!(run("echo hello", LIMIT), Verdict::Passed(b"hello\n".to_vec()));
        assert_eq!(
            run("echo freehold: why >&2; exit 3", LIMIT),
            Verdict::Failed("exit 3 freehold: why".into())
        );
        assert_eq!(run("kill -6 $$", LIMIT), Verdict::Failed("signal 6 ".into()));
        assert_eq!(run("echo a; echo b >&2; exit 1", LIMIT), Verdict::Failed("exit 1 b".into()));
        let late = run("sleep 30 & sleep 30", Duration::from_millis(50));
        assert_eq!(late, Verdict::Failed("not done after 0 s".into()));
    }
}
