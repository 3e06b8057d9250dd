//! Columns: the ways in which a case is run. glibc's is what all others are compared with.
//!
//! ```text
//! freehold   the library preloaded
//! secure     the library preloaded, FREEHOLD_SECURE=1
//! run        freehold run -- command
//! record     freehold record -- command; its trace must be whole
//! ```
//!
//! Invariant: what is preloaded lies where every user can read it, so that a server that becomes another user keeps it.

use super::case::Case;
use crate::bench::place::{Place, must};
use anyhow::Context;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A way to run a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Freehold,
    Secure,
    Run,
    Record,
}

/// The ways of a program's own tests.
pub const PLAIN: &[Way] = &[Way::Freehold];
/// The ways of tests of mallocs.
pub const HARDENED: &[Way] = &[Way::Freehold, Way::Secure];
/// The ways of a script of ours.
pub const ALL: &[Way] = &[Way::Run, Way::Secure, Way::Record];

/// What the columns need, made once.
pub struct Columns {
    /// The library, readable by all.
    pub library: PathBuf,
    /// The command; `None` when no way needs it, or another library is tested than the one that it carries.
    command: Option<PathBuf>,
    /// Holds both, and what the command unpacks.
    folder: PathBuf,
    /// The ways that are wanted; empty is all.
    wanted: Vec<Way>,
}

impl Way {
    /// As the report and `--under` have it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Freehold => "freehold",
            Way::Secure => "secure",
            Way::Run => "run",
            Way::Record => "record",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Result<Way, String> {
        let all = [Way::Freehold, Way::Secure, Way::Run, Way::Record];
        let found = all.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| format!("{text} is none of freehold, secure, run, record"))
    }
}

impl Columns {
    /// Copies the library and, if it is wanted, builds the command.
    pub fn open(
        place: &Place,
        library: &Path,
        by_command: bool,
        wanted: &[Way],
    ) -> anyhow::Result<Columns> {
        let folder = std::env::temp_dir().join(format!("freehold-soak-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("freehold"))?;
        let mut columns = Columns {
            library: folder.join("libfreehold.so"),
            command: None,
            folder,
            wanted: wanted.to_vec(),
        };
        std::fs::copy(library, &columns.library)?;
        if by_command {
            columns.command = Some(build_command(place)?);
            columns.unpack()?;
        }
        Ok(columns)
    }

    /// Lets the command unpack its libraries, and opens their folders to all.
    fn unpack(&self) -> anyhow::Result<()> {
        let trace = self.folder.join("unpacked.fht");
        for words in [vec!["run", "--library"], vec!["record", "--quiet", "-o"]] {
            let mut command = Command::new(self.freehold()?);
            command.env("XDG_CACHE_HOME", &self.folder).args(&words);
            if words[0] == "record" {
                command.arg(&trace).args(["--", "true"]);
            }
            must(&mut command, "the command freehold does not work")?;
        }
        for entry in std::fs::read_dir(self.folder.join("freehold"))? {
            std::fs::set_permissions(entry?.path(), Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn freehold(&self) -> anyhow::Result<&Path> {
        self.command.as_deref().context("the command freehold was not built")
    }

    /// The ways of `case` that this run has. A program's own tests run hardened if that is asked for by name.
    pub fn of(&self, case: &Case) -> Vec<Way> {
        let possible = |way: &Way| self.command.is_some() || *way != Way::Record;
        let chosen = |way: &Way| self.wanted.is_empty() || self.wanted.contains(way);
        let ways = match case.under {
            PLAIN if !self.wanted.is_empty() => HARDENED,
            ways => ways,
        };
        ways.iter().copied().filter(possible).filter(chosen).collect()
    }

    /// What is preloaded.
    pub fn preload(&self, way: Option<Way>, own_allocator: bool) -> String {
        match way {
            Some(Way::Freehold | Way::Secure) => self.library.display().to_string(),
            Some(Way::Run) if self.command.is_none() => self.library.display().to_string(),
            // The command preloads by itself.
            Some(Way::Run) => String::new(),
            None | Some(Way::Record) if own_allocator => "libc.so.6".to_owned(),
            None | Some(Way::Record) => String::new(),
        }
    }

    /// The case as it is run this way; what a recording leaves goes to `trace`.
    pub fn dress(&self, case: &Case, way: Option<Way>, trace: &Path) -> Case {
        let mut dressed = case.clone();
        let words: Vec<OsString> = match (way, &self.command) {
            (Some(Way::Run), Some(freehold)) => {
                [freehold.as_os_str(), "run".as_ref(), "--quiet".as_ref(), "--".as_ref()]
                    .map(OsString::from)
                    .to_vec()
            }
            (Some(Way::Record), Some(freehold)) => [
                freehold.as_os_str(),
                "record".as_ref(),
                "--quiet".as_ref(),
                "-o".as_ref(),
                trace.as_os_str(),
                "--".as_ref(),
            ]
            .map(OsString::from)
            .to_vec(),
            _ => Vec::new(),
        };
        if !words.is_empty() {
            let cache = self.folder.display().to_string();
            dressed.env.push(("XDG_CACHE_HOME", cache));
        }
        if way == Some(Way::Secure) {
            dressed.env.push(("FREEHOLD_SECURE", "1".to_owned()));
        }
        dressed.command = words.into_iter().chain(dressed.command).collect();
        dressed
    }

    /// Whether the trace is there and can be read from its beginning to its end; it is removed.
    pub fn verify_trace(&self, trace: &Path) -> anyhow::Result<Result<(), String>> {
        let mut info = Command::new(self.freehold()?);
        info.env("XDG_CACHE_HOME", &self.folder).args(["info", "--json"]).arg(trace);
        let output = info.stdin(Stdio::null()).output()?;
        let _ = std::fs::remove_file(trace);
        let complaint = String::from_utf8_lossy(&output.stderr);
        Ok(match output.status.success() {
            true => Ok(()),
            false => Err(format!("its trace cannot be read: {}", complaint.trim())),
        })
    }
}

impl Drop for Columns {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The command `freehold` as it is in the tree.
fn build_command(place: &Place) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate::sources::root());
    // Chosen as `cargo run` does: named by its package, with other features of one crate, it would all be built once more.
    command.args(["build", "--quiet", "--release", "--bin", "freehold", "--target-dir"]);
    must(command.arg(&place.target), "the command freehold does not build")?;
    Ok(place.target.join("release/freehold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(command: Option<&str>, wanted: &[Way]) -> Columns {
        Columns {
            library: "/x/libfreehold.so".into(),
            command: command.map(PathBuf::from),
            folder: tempfile::tempdir().unwrap().keep(),
            wanted: wanted.to_vec(),
        }
    }

    #[test]
    fn a_foreign_library_is_preloaded_and_not_recorded() {
        let case = Case { under: ALL, ..Case::new("x", ["true"]) };
        let foreign = columns(None, &[]);
        assert_eq!(foreign.of(&case), [Way::Run, Way::Secure]);
        assert_eq!(foreign.preload(Some(Way::Run), false), "/x/libfreehold.so");
        assert_eq!(foreign.dress(&case, Some(Way::Run), Path::new("t")).command, ["true"]);
    }

    #[test]
    fn each_way_has_its_own_words() {
        let case = Case { under: ALL, ..Case::new("x", ["true"]) };
        let own_tests = Case::new("x", ["true"]);
        assert_eq!(columns(None, &[]).of(&own_tests), [Way::Freehold]);
        assert_eq!(columns(None, &[Way::Secure]).of(&own_tests), [Way::Secure], "by name");
        let ours = columns(Some("fh"), &[Way::Record]);
        assert!(ours.of(&own_tests).is_empty());
        assert_eq!(ours.of(&case), [Way::Record]);
        assert_eq!(ours.dress(&case, None, Path::new("t")).command, ["true"]);
        let recorded = ours.dress(&case, Some(Way::Record), Path::new("t"));
        assert_eq!(recorded.command, ["fh", "record", "--quiet", "-o", "t", "--", "true"]);
        let secure = ours.dress(&case, Some(Way::Secure), Path::new("t"));
        assert_eq!(secure.env, [("FREEHOLD_SECURE", "1".to_owned())]);
        assert_eq!(ours.preload(Some(Way::Record), true), "libc.so.6");
    }
}
