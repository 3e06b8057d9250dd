//! The main job on programs that nobody here wrote: python3, git, g++, sqlite3, redis.
//!
//! Each is recorded, replayed and reported, and its own output must be what it is without us.
//! A program that is not installed makes its test *ignored*, by name and counted, which is why
//! this file brings its own harness; with `CI` set it fails instead: in CI nothing is skipped.

use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A real program at work.
struct Program {
    /// The name of the test.
    name: &'static str,
    /// The commands it needs, and the Debian packages that have them.
    needs: &'static [(&'static str, &'static str)],
    /// What runs it, in an empty folder: a line for `sh -c`. Its output is the same every time.
    script: &'static str,
    /// The least number of events its busiest process can have.
    events: u64,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "python3",
        needs: &[("python3", "python3")],
        script: "PYTHONMALLOC=malloc exec python3 -c '
import json, threading
def work(n):
    words = [str(i) * 3 for i in range(20000 + n)]
    return len(json.dumps({w: [i, w] for i, w in enumerate(words)}))
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
print(work(7))'",
        events: 200_000,
    },
    Program {
        name: "git_log",
        needs: &[("git", "git")],
        script: "git init -q . && git config user.name n && git config user.email n@example.org &&
for i in 1 2 3 4 5 6 7 8; do seq 1 $((i * 400)) > file$i; git add . &&
GIT_COMMITTER_DATE=2026-01-0${i}T00:00:00Z GIT_AUTHOR_DATE=2026-01-0${i}T00:00:00Z git commit -q -m \"$i\"; done;
exec git --no-pager log -p --stat",
        events: 1_000,
    },
    Program {
        name: "gcc_o2",
        needs: &[("g++", "g++")],
        script: "cat > a.cc <<'END'
#include <map>
#include <string>
#include <vector>
#include <algorithm>
std::map<std::string, std::vector<int>> index(const std::vector<std::string>& words) {
  std::map<std::string, std::vector<int>> found;
  for (size_t i = 0; i < words.size(); ++i) found[words[i]].push_back(int(i));
  for (auto& [word, places] : found) std::sort(places.begin(), places.end());
  return found;
}
END
exec g++ -std=c++17 -O2 -S -o - a.cc",
        events: 100_000,
    },
    Program {
        name: "sqlite3",
        needs: &[("sqlite3", "sqlite3")],
        script: "exec sqlite3 :memory: '
create table t(a integer primary key, b text);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000)
insert into t select x, hex(x * 7919) from n;
create index i on t(b);
select count(*), min(b), max(b) from t where b like \"3%\";'",
        events: 10_000,
    },
    Program {
        name: "redis_server",
        needs: &[("redis-server", "redis-server"), ("redis-cli", "redis-tools")],
        // A socket file instead of a port: no test run meets another one.
        script: "redis-server --port 0 --unixsocket $PWD/s --save '' --daemonize no > log 2>&1 &
for i in $(seq 100); do redis-cli -s s ping > ping 2>&1 && break; sleep 0.1; done
redis-benchmark -s s -q -n 5000 -c 8 -r 1000 -t set,lpush,hset,sadd > bench 2>&1
redis-cli -s s dbsize > size 2>&1 && redis-cli -s s shutdown nosave; wait; echo served",
        events: 10_000,
    },
];

fn main() {
    let arguments = Arguments::from_args();
    let trials = PROGRAMS.iter().map(|program| {
        let missing = missing(program);
        let ignored = missing.is_some() && std::env::var_os("CI").is_none();
        Trial::test(program.name, move || match missing {
            Some(package) => Err(format!("needs the Debian package {package}").into()),
            None => check(program),
        })
        .with_ignored_flag(ignored)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// The package to install, if one is missing; says so.
fn missing(program: &Program) -> Option<&'static str> {
    let (command, package) = program.needs.iter().find(|(command, _)| !is_installed(command))?;
    eprintln!("{}: skipped without {command} (apt install {package})", program.name);
    Some(package)
}

fn is_installed(command: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
    })
}

fn check(program: &Program) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let alone = finish(sh(program.script, &folder.path().join("alone"))?)?;
    let trace = folder.path().join("app.fht");
    let recorded = freehold(&["record", "--quiet", "-o"], &trace, program, folder.path())?;
    same(&alone, &recorded)?;
    has_events(&trace, program.events)?;
    let report = folder.path().join("report.html");
    let compared = freehold(
        &["compare", "--runs", "1", "--on", "first-fit,good-fit,glibc", "-o"],
        &report,
        program,
        folder.path(),
    )?;
    if !compared.stdout.starts_with(&alone.stdout) {
        return Err("compare changed what the program prints".into());
    }
    let html = fs::read_to_string(&report)?;
    for name in ["first-fit", "good-fit", "glibc"] {
        if !html.contains(name) {
            return Err(format!("the report does not name {name}").into());
        }
    }
    Ok(())
}

/// Runs the script in a new folder.
fn sh(script: &str, folder: &Path) -> Result<Output, Failed> {
    fs::create_dir_all(folder)?;
    let mut command = Command::new("sh");
    Ok(command.args(["-c", script]).current_dir(folder).stdin(Stdio::null()).output()?)
}

/// Runs `freehold WORDS OUT -- sh -c SCRIPT` in a new folder; it must succeed.
fn freehold(
    words: &[&str],
    out: &Path,
    program: &Program,
    folder: &Path,
) -> Result<Output, Failed> {
    let folder: PathBuf = folder.join(words[0]);
    fs::create_dir_all(&folder)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(words).arg(out).args(["--", "sh", "-c", program.script]);
    finish(command.current_dir(&folder).stdin(Stdio::null()).output()?)
}

fn finish(output: Output) -> Result<Output, Failed> {
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// Both outputs of the program, to the byte. (`record --quiet` says nothing of its own.)
fn same(alone: &Output, recorded: &Output) -> Result<(), Failed> {
    if alone.stdout != recorded.stdout || alone.stderr != recorded.stderr {
        let message = format!(
            "the recorded program prints something else:\n{}\n{}",
            String::from_utf8_lossy(&recorded.stdout),
            String::from_utf8_lossy(&recorded.stderr)
        );
        return Err(message.into());
    }
    Ok(())
}

/// The busiest process of the trace has at least `least` events, and nothing is damaged.
fn has_events(trace: &Path, least: u64) -> Result<(), Failed> {
    let trace = freehold_trace::Trace::open(trace)?;
    if trace.events() < least || !trace.damage().is_empty() {
        return Err(format!("{} events, {:?}", trace.events(), trace.damage()).into());
    }
    Ok(())
}
