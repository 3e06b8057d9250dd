//! The programs and their cases: in the short form a script of ours, in the long one also the program's own tests.

use super::Workshop;
use super::battery::Plan;
use super::case::{Case, FOLDER};
use super::column;
use super::debian;
use crate::bench::place::{find_program, must};
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A program and how to make its cases; an error is the reason why it is not run.
pub struct Suite {
    pub name: &'static str,
    pub sentence: &'static str,
    /// It is part of the short form.
    pub short: bool,
    pub plan: fn(&Workshop) -> anyhow::Result<Plan>,
}

impl Suite {
    /// Its sentence, and which form it belongs to.
    pub fn shown(&self) -> String {
        format!("{}{}", self.sentence, if self.short { "" } else { " (long form)" })
    }
}

/// All of them.
pub const ALL: &[Suite] = &[
    Suite {
        name: "sqlite",
        sentence: "a script; SQLite's own tests by its test fixture",
        short: true,
        plan: sqlite,
    },
    Suite {
        name: "git",
        sentence: "a script that ends in fsck; git's own t/",
        short: true,
        plan: git,
    },
    Suite {
        name: "perl",
        sentence: "a script with forks and threads; perl's own t/",
        short: true,
        plan: perl,
    },
    Suite {
        name: "python",
        sentence: "CPython's test package, PYTHONMALLOC=malloc",
        short: true,
        plan: python,
    },
    Suite {
        name: "redis",
        sentence: "load, forks, reloads, digests; redis' own tests",
        short: true,
        plan: redis,
    },
    Suite {
        name: "postgres",
        sentence: "pgbench, a crash, recovery, amcheck",
        short: true,
        plan: postgres,
    },
    Suite { name: "node", sentence: "worker threads", short: true, plan: node },
    Suite { name: "java", sentence: "threads, direct buffers", short: true, plan: java },
];

/// A plan of one script of ours, more cases to be added.
pub fn plan_of(probe: &[&Path], cases: Vec<Case>) -> Plan {
    Plan {
        cases,
        probe: probe.iter().map(|word| word.as_os_str().to_owned()).collect(),
        own_allocator: false,
        jobs: usize::MAX,
    }
}

/// A script of ours, its output compared.
pub fn script(workshop: &Workshop, name: &str, runner: &[&str], arguments: &[&str]) -> Case {
    let words = runner.iter().map(OsString::from);
    let file = workshop.scripts.join(name).into_os_string();
    let command = words.chain([file]).chain(arguments.iter().map(OsString::from));
    Case { compared: true, under: column::ALL, ..Case::new(name, command.collect::<Vec<_>>()) }
}

/// Files directly in `folder` that end in `end`, sorted.
pub fn files(folder: &Path, end: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.to_string_lossy().ends_with(end));
    files.sort();
    Ok(files)
}

pub fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn sqlite(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("sqlite3", "sqlite3")?;
    let read = format!(".read {}", workshop.scripts.join("sqlite.sql").display());
    let command = [program.clone().into(), "test.db".into(), OsString::from(read)];
    let mut cases =
        vec![Case { compared: true, under: column::ALL, ..Case::new("script", command) }];
    if !workshop.short {
        cases.extend(sqlite_own(workshop)?);
    }
    Ok(plan_of(&[&program, Path::new("-version")], cases))
}

/// What says that the fixture was told to fail allocations itself, or takes hours: left out.
const SQLITE_LONG: &[&str] = &[
    "all",
    "full",
    "quick",
    "veryquick",
    "extraquick",
    "mallocAll",
    "memsubsys",
    "soak",
    "crash",
    "permutations",
    "walslow",
    "wal2slow",
    "speed",
    "bigfile",
    "fuzz",
    "tester",
    "valgrind",
    "threadtest",
];

fn sqlite_own(workshop: &Workshop) -> anyhow::Result<Vec<Case>> {
    let source = debian::source(workshop, "sqlite3", |folder| {
        let why =
            "SQLite's test fixture does not build (packages build-essential, tcl-dev, zlib1g-dev)";
        must(Command::new("./configure").current_dir(folder), why)?;
        must(Command::new("make").current_dir(folder).args(["-j2", "testfixture"]), why)
    })?;
    let fixture = source.join("testfixture");
    let tests = files(&source.join("test"), ".test")?.into_iter().filter(|file| {
        let name = stem(file);
        !SQLITE_LONG.iter().any(|long| name.starts_with(long))
    });
    Ok(tests
        .map(|file| Case {
            limit: Duration::from_secs(300),
            ..Case::new(stem(&file), [fixture.clone(), file])
        })
        .collect())
}

fn git(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("git", "git")?;
    let mut cases = vec![script(workshop, "git.sh", &["sh"], &[])];
    if !workshop.short {
        cases.extend(git_own(workshop, &program)?);
    }
    Ok(plan_of(&[&program, Path::new("--version")], cases))
}

/// git's own tests, run against the installed git.
fn git_own(workshop: &Workshop, program: &Path) -> anyhow::Result<Vec<Case>> {
    const WITHOUT: &[&str] =
        &["NO_CURL=1", "NO_GETTEXT=1", "NO_TCLTK=1", "NO_EXPAT=1", "NO_OPENSSL=1"];
    let source = debian::source(workshop, "git", |folder| {
        let mut make = Command::new("make");
        make.current_dir(folder).args(["-j2", "CFLAGS=-O0"]).args(WITHOUT);
        make.args(["t/helper/test-tool", "GIT-BUILD-OPTIONS"]);
        let why = "git's test tool does not build (packages build-essential, zlib1g-dev)";
        must(&mut make, why)?;
        must(Command::new("make").current_dir(folder).args(["-C", "templates"]), why)
    })?;
    let installed = program.parent().context("git lies in no folder")?;
    let scripts = files(&source.join("t"), ".sh")?.into_iter();
    let numbered = scripts.filter(|file| {
        let name = stem(file).into_bytes();
        name.len() > 5 && name[0] == b't' && name[1..5].iter().all(u8::is_ascii_digit)
    });
    Ok(numbered
        .map(|file| Case {
            env: vec![("GIT_TEST_INSTALLED", installed.display().to_string())],
            at: Some(source.join("t")),
            skip_words: &["1..0 # SKIP"],
            ..Case::new(
                stem(&file),
                ["sh".into(), file.into_os_string(), format!("--root={FOLDER}").into()],
            )
        })
        .collect())
}

fn perl(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("perl", "perl")?;
    let mut cases = vec![script(workshop, "perl.pl", &["perl"], &[])];
    if !workshop.short {
        cases.extend(perl_own(workshop, &program)?);
    }
    Ok(plan_of(&[&program, Path::new("-e"), Path::new("1")], cases))
}

/// perl's own tests of the language, run by the installed perl with its installed library.
fn perl_own(workshop: &Workshop, program: &Path) -> anyhow::Result<Vec<Case>> {
    const PARTS: &[&str] =
        &["base", "cmd", "comp", "io", "re", "opbasic", "op", "uni", "mro", "lib"];
    let source = debian::source(workshop, "perl", |folder| {
        // The tests look for the library beside them: there they find the installed one.
        std::fs::rename(folder.join("lib"), folder.join("lib.source"))?;
        std::fs::create_dir(folder.join("lib"))?;
        symlink(program, folder.join("perl"))?;
        symlink(program, folder.join("t/perl"))?;
        let link = r#"for my $dir (@INC) { system "cp -asn $dir/. ../lib/ 2>/dev/null" if $dir =~ m{^/usr/(share|lib)} && -d $dir }"#;
        must(
            Command::new(program).current_dir(folder.join("t")).args(["-e", link]),
            "perl's library cannot be linked",
        )
    })?;
    let mut cases = Vec::new();
    for part in PARTS {
        for file in files(&source.join("t").join(part), ".t")? {
            let name = format!("{part}/{}", stem(&file));
            let file = format!("{name}.t");
            cases.push(Case {
                env: vec![("PERL_CORE", "1".to_owned())],
                at: Some(source.join("t")),
                skip_words: &["skipped:"],
                ..Case::new(name, ["prove", "--exec", "./perl", &file])
            });
        }
    }
    Ok(cases)
}

/// What the short form runs of CPython's tests: containers, text, threads, forks.
const PYTHON_SHORT: &[&str] = &[
    "test_dict",
    "test_list",
    "test_deque",
    "test_re",
    "test_json",
    "test_gc",
    "test_thread",
    "test_fork1",
    "test_queue",
    "test_sqlite3",
    "test_zlib",
];

/// A python3 with fewer tests than this lacks the package's greater part.
const PYTHON_FEWEST: usize = 100;

/// The interpreter itself (what is called python3 may be a script) and its tests; `None` if it lacks them.
fn python_tests(python: &Path) -> Option<(PathBuf, Vec<String>)> {
    let ask = |arguments: &[&str]| {
        let output = Command::new(python).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let itself = ask(&["-c", "import sys; print(sys.executable)"])?;
    let listed = ask(&["-m", "test", "--list-tests"])?;
    let tests: Vec<String> =
        listed.lines().filter(|line| line.starts_with("test")).map(str::to_owned).collect();
    (tests.len() >= PYTHON_FEWEST).then(|| (PathBuf::from(itself.trim()), tests))
}

fn python(workshop: &Workshop) -> anyhow::Result<Plan> {
    let first = find_program("python3", "python3")?;
    let found = [first, PathBuf::from("/usr/bin/python3")].iter().find_map(|at| python_tests(at));
    let (program, tests) =
        found.context("no python3 here has the package `test` (Debian: libpython3.*-testsuite)")?;
    let chosen =
        tests.iter().filter(|name| !workshop.short || PYTHON_SHORT.contains(&name.as_str()));
    let cases = chosen.map(|name| {
        let words = ["-m", "test", "--timeout", "400", name].map(OsString::from);
        let command = std::iter::once(program.clone().into()).chain(words);
        Case {
            env: vec![("PYTHONMALLOC", "malloc".to_owned())],
            skip_words: &["skipped (", " skipped\n", "NO TESTS RAN", "resource denied"],
            // Its own limit comes first, and says where the test was.
            limit: Duration::from_secs(420),
            ..Case::new(name, command)
        }
    });
    let cases = cases.collect();
    Ok(plan_of(&[&program, Path::new("-c"), Path::new("pass")], cases))
}

fn redis(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("redis-server", "redis-server")?;
    find_program("redis-benchmark", "redis-tools")?;
    let requests = if workshop.short { "10000" } else { "300000" };
    let mut cases = vec![script(workshop, "redis.sh", &["sh"], &[requests])];
    if !workshop.short {
        cases.extend(redis_own(workshop, &program)?);
    }
    let probe = plan_of(&[&program, Path::new("--version")], cases);
    // Its tests share a folder that each of them clears first.
    Ok(Plan { own_allocator: true, jobs: 1, ..probe })
}

/// redis' own tests, run against the installed server, each on ports of its own.
fn redis_own(workshop: &Workshop, program: &Path) -> anyhow::Result<Vec<Case>> {
    const FIRST_PORT: usize = 22_000;
    const PORTS: usize = 200;
    find_program("tclsh", "tcl")?;
    let source = debian::source(workshop, "redis", |folder| {
        for name in
            ["redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"]
        {
            symlink(program.with_file_name(name), folder.join("src").join(name))?;
        }
        // The sentinel is the same program by another name.
        Ok(symlink(program, folder.join("src/redis-sentinel"))?)
    })?;
    let list = std::fs::read_to_string(source.join("tests/test_helper.tcl"))?;
    let units = list.lines().map(str::trim).skip_while(|line| !line.starts_with("set ::all_tests"));
    let units = units.skip(1).take_while(|line| *line != "}");
    Ok(units
        .enumerate()
        .map(|(number, unit)| Case {
            at: Some(source.clone()),
            limit: Duration::from_secs(900),
            ..Case::new(
                unit,
                [
                    "./runtest",
                    "--single",
                    unit,
                    "--clients",
                    "1",
                    "--baseport",
                    &(FIRST_PORT + number * PORTS).to_string(),
                    "--portcount",
                    &PORTS.to_string(),
                ],
            )
        })
        .collect())
}

fn postgres(workshop: &Workshop) -> anyhow::Result<Plan> {
    let (scale, seconds) = if workshop.short { ("2", "4") } else { ("10", "60") };
    let folder = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin =
        folder.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file());
    let bin = bin.context("no PostgreSQL server here: install the package postgresql")?;
    let bin_text = bin.to_str().context("PostgreSQL's path is not UTF-8")?;
    let case = script(workshop, "postgres.sh", &["sh"], &[bin_text, scale, seconds]);
    Ok(plan_of(&[&bin.join("postgres"), Path::new("--version")], vec![case]))
}

fn node(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("node", "nodejs")?;
    let case = script(workshop, "threads.js", &["node"], &[]);
    Ok(plan_of(&[&program, Path::new("--version")], vec![case]))
}

fn java(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("java", "default-jdk-headless")?;
    find_program("javac", "default-jdk-headless")?;
    let case = script(workshop, "Threads.java", &["java"], &[]);
    Ok(plan_of(&[&program, Path::new("-version")], vec![case]))
}
