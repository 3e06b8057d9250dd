//! Languages, servers and desktop programs: one script of ours each, in xtask/soak/runtimes, whose output is compared in
//! every way. What is small to install belongs to the short form.

use super::Workshop;
use super::battery::Plan;
use super::case::Case;
use super::column;
use super::suites::{Suite, plan_of};
use crate::bench::place::{find_program, must};
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// All of them.
pub const ALL: &[Suite] = &[
    Suite {
        name: "php",
        sentence: "arrays, expressions, cycles, forks; extensions opened with RTLD_DEEPBIND",
        short: true,
        plan: |workshop| script(workshop, "php", "php-cli", &["-v"], "language.php"),
    },
    Suite {
        name: "ruby",
        sentence: "the compacting collector, threads, fibers, ractors, forks",
        short: true,
        plan: |workshop| script(workshop, "ruby", "ruby", &["-v"], "language.rb"),
    },
    Suite {
        name: "lua",
        sentence: "tables, coroutines, both modes of the collector",
        short: true,
        plan: |workshop| script(workshop, "lua5.4", "lua5.4", &["-v"], "language.lua"),
    },
    Suite {
        name: "erlang",
        sentence: "20,000 processes, tables, ports, code loading",
        short: true,
        plan: erlang,
    },
    Suite {
        name: "processes",
        sentence: "python: threads, pools by fork, spawn and server, shared memory",
        short: true,
        plan: processes,
    },
    Suite {
        name: "openmp",
        sentence: "teams of threads, tasks that free each other's blocks",
        short: true,
        plan: openmp,
    },
    Suite {
        name: "nginx",
        sentence: "two workers, a cache, compression, reloads under six clients",
        short: true,
        plan: |workshop| server(workshop, "nginx", "nginx-light", "-v", "nginx.sh"),
    },
    Suite {
        name: "memcached",
        sentence: "four threads, values that grow, six clients",
        short: true,
        plan: |workshop| server(workshop, "memcached", "memcached", "-V", "memcached.sh"),
    },
    Suite {
        name: "chromium",
        sentence: "a page's text and its picture",
        short: true,
        plan: chromium,
    },
    Suite {
        name: "go",
        sentence: "goroutines and threads that free each other's blocks by cgo",
        short: false,
        plan: go,
    },
    Suite {
        name: "qt",
        sentence: "windows, tables and texts painted without a screen",
        short: false,
        plan: qt,
    },
    Suite {
        name: "gtk",
        sentence: "windows, lists and texts on a virtual screen",
        short: false,
        plan: gtk,
    },
    Suite {
        name: "libreoffice",
        sentence: "a sheet and a text through six formats",
        short: false,
        plan: |workshop| {
            server(
                workshop,
                "soffice",
                "libreoffice-calc-nogui libreoffice-writer-nogui",
                "",
                "libreoffice.sh",
            )
        },
    },
    Suite {
        name: "stress-ng",
        sentence: "forks of all kinds, contexts, limits, filters, faults on alternate stacks",
        short: false,
        plan: |workshop| server(workshop, "stress-ng", "stress-ng", "--version", "stress.sh"),
    },
    Suite {
        name: "mariadb",
        sentence: "eight clients, a kill, recovery, table checks",
        short: false,
        plan: |workshop| server(workshop, "mariadbd", "mariadb-server", "--version", "mariadb.sh"),
    },
];

/// A file of ours, run by `runner`; its output is compared, in every way.
fn case(workshop: &Workshop, file: &str, runner: &[&Path], arguments: &[&Path]) -> Case {
    let words = runner.iter().map(|word| word.as_os_str().to_owned());
    let file_at = workshop.scripts.join("runtimes").join(file).into_os_string();
    let rest = arguments.iter().map(|word| word.as_os_str().to_owned());
    Case {
        compared: true,
        under: column::ALL,
        limit: Duration::from_secs(300),
        ..Case::new(file, words.chain([file_at]).chain(rest).collect::<Vec<OsString>>())
    }
}

/// A script and its interpreter, which is probed with `arguments`.
fn script(
    workshop: &Workshop,
    program: &str,
    package: &str,
    arguments: &[&str],
    file: &str,
) -> anyhow::Result<Plan> {
    let program = find_program(program, package)?;
    let probe: Vec<&Path> =
        std::iter::once(program.as_path()).chain(arguments.iter().map(Path::new)).collect();
    Ok(plan_of(&probe, vec![case(workshop, file, &[&program], &[])]))
}

/// A program in /usr/sbin or on the PATH, started and asked by a shell script that is handed its path.
fn server(
    workshop: &Workshop,
    program: &str,
    package: &str,
    version: &str,
    file: &str,
) -> anyhow::Result<Plan> {
    let fixed = Path::new("/usr/sbin").join(program);
    let program = if fixed.is_file() { fixed } else { find_program(program, package)? };
    let case = case(workshop, file, &[Path::new("sh")], &[&program]);
    let probe = [program.as_path(), Path::new(version)];
    // Who says no version is not probed.
    Ok(plan_of(if version.is_empty() { &[] } else { &probe }, vec![case]))
}

fn erlang(workshop: &Workshop) -> anyhow::Result<Plan> {
    let machine = find_program("erl", "erlang-base")?;
    let words = ["-noshell", "-eval", "halt()."].map(Path::new);
    let probe: Vec<&Path> = std::iter::once(machine.as_path()).chain(words).collect();
    let escript = find_program("escript", "erlang-base")?;
    let case = case(workshop, "language.erl", &[&escript], &[]);
    // The machine wants to write a file at home.
    let env = vec![("HOME", super::case::FOLDER.to_owned())];
    Ok(plan_of(&probe, vec![Case { env, ..case }]))
}

/// The interpreter itself: what is called python3 may be a script.
fn python() -> anyhow::Result<PathBuf> {
    let first = find_program("python3", "python3")?;
    let asked = Command::new(first).args(["-c", "import sys; print(sys.executable)"]).output()?;
    anyhow::ensure!(asked.status.success(), "python3 does not start");
    Ok(PathBuf::from(String::from_utf8(asked.stdout).context("python3's path")?.trim()))
}

fn processes(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = python()?;
    let case = case(workshop, "processes.py", &[&program], &[]);
    let env = vec![("PYTHONMALLOC", "malloc".to_owned())];
    Ok(plan_of(&[&program, Path::new("-c"), Path::new("pass")], vec![Case { env, ..case }]))
}

fn openmp(workshop: &Workshop) -> anyhow::Result<Plan> {
    let source = workshop.scripts.join("runtimes/openmp.c");
    let program = workshop.place.scratch.join("openmp-program");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-fopenmp", "-o"]).arg(&program).arg(source);
    must(&mut compiler, "no C compiler with OpenMP (package gcc)")?;
    Ok(built("openmp", program))
}

/// A program of ours that was built: itself is the probe.
fn built(name: &str, program: PathBuf) -> Plan {
    let words = [program.as_os_str().to_owned()];
    let case = Case { compared: true, under: column::ALL, ..Case::new(name, words) };
    plan_of(&[&program], vec![case])
}

fn go(workshop: &Workshop) -> anyhow::Result<Plan> {
    let compiler = find_program("go", "golang-go")?;
    let program = workshop.place.scratch.join("cgo-program");
    let mut build = Command::new(compiler);
    build.current_dir(workshop.scripts.join("runtimes/cgo")).args(["build", "-o"]).arg(&program);
    build.env("CGO_ENABLED", "1").env("GOCACHE", workshop.place.target.join("soak/go"));
    must(&mut build, "the Go program does not build (packages golang-go and gcc)")?;
    Ok(built("cgo", program))
}

fn qt(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = PathBuf::from("/usr/bin/python3");
    let mut asked = Command::new(&program);
    must(asked.args(["-c", "import PyQt5.QtWidgets"]), "Qt is missing (package python3-pyqt5)")?;
    let case = case(workshop, "qt.py", &[&program], &[]);
    let probe = [program.as_path(), Path::new("-c"), Path::new("import PyQt5.QtWidgets")];
    Ok(plan_of(&probe, vec![case]))
}

fn gtk(workshop: &Workshop) -> anyhow::Result<Plan> {
    const PACKAGES: &str = "GTK is missing (packages libgtk-3-dev and pkg-config)";
    let screen = find_program("xvfb-run", "xvfb")?;
    let program = workshop.place.scratch.join("gtk-program");
    let source = workshop.scripts.join("runtimes/gtk.c");
    let mut compiler = Command::new("sh");
    compiler.args(["-c", "cc \"$0\" -o \"$1\" $(pkg-config --cflags --libs gtk+-3.0)"]);
    must(compiler.arg(source).arg(&program), PACKAGES)?;
    let words = [screen.as_os_str(), "-a".as_ref(), program.as_os_str()].map(OsString::from);
    let case = Case { compared: true, under: column::ALL, ..Case::new("gtk", words) };
    Ok(plan_of(&[], vec![case]))
}

fn chromium(workshop: &Workshop) -> anyhow::Result<Plan> {
    let program = find_program("chromium", "chromium")?;
    let case = case(workshop, "chromium.sh", &[Path::new("sh")], &[&program]);
    // What is called chromium is a script, and the browser forbids being asked by its sandbox: not probed.
    Ok(plan_of(&[], vec![case]))
}
