//! Tests of mallocs that are not ours: glibc's, jemalloc's, mimalloc's, the Linux Test Project's and libc-test's, as far as
//! they need the standard interface only. Each is compiled alone against headers of ours (xtask/soak/mallocs) that stand for
//! the library its authors build it with, and runs preloaded, plain and with FREEHOLD_SECURE=1.
//!
//! Sources come from Debian's source packages; those that Debian does not package, or all of them, from clones in the folder
//! that `--sources` names. A source is copied to the target folder and never changed.

use super::battery::Plan;
use super::case::Case;
use super::suites::{Suite, plan_of};
use super::{Workshop, column, debian};
use crate::bench::place::must;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// All of them.
pub const ALL: &[Suite] = &[
    Suite {
        name: "glibc",
        sentence: "glibc's tests of malloc that need no internals",
        short: true,
        plan: glibc,
    },
    Suite {
        name: "jemalloc",
        sentence: "jemalloc's integration tests of the standard interface",
        short: false,
        plan: jemalloc,
    },
    Suite {
        name: "mimalloc",
        sentence: "mimalloc's test-api, check by check, and test-stress",
        short: false,
        plan: mimalloc,
    },
    Suite {
        name: "ltp",
        sentence: "the Linux Test Project's tests of malloc (--sources)",
        short: false,
        plan: ltp,
    },
    Suite {
        name: "libc-test",
        sentence: "libc-test's functional and regression tests (--sources)",
        short: false,
        plan: libc_test,
    },
];

/// Where a source lies: among the clones, or in Debian's package of that name.
fn source(workshop: &Workshop, name: &str, packaged: bool) -> anyhow::Result<PathBuf> {
    if let Some(clone) =
        workshop.sources.as_ref().map(|folder| folder.join(name)).filter(|at| at.is_dir())
    {
        return Ok(clone);
    }
    anyhow::ensure!(packaged, "no clone of {name}: --sources names the folder that holds it");
    debian::source(workshop, name, |_| Ok(()))
}

/// One program to build: flags first, so that our headers stand before all others.
struct Build<'a> {
    folder: &'a Path,
    compiler: &'static str,
    flags: Vec<String>,
}

impl Build<'_> {
    /// Compiles `sources` to `name`.
    fn program(
        &self,
        name: &str,
        sources: &[PathBuf],
        libraries: &[&str],
    ) -> anyhow::Result<PathBuf> {
        let program = self.folder.join(format!("{}.program", name.replace('/', "-")));
        let mut compiler = Command::new(self.compiler);
        // What a test does with memory is what it tests: the compiler must not know malloc.
        compiler
            .args(["-w", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-pthread", "-o"])
            .arg(&program);
        compiler.args(&self.flags).args(sources).args(libraries);
        must(&mut compiler, &format!("{name} does not compile"))?;
        Ok(program)
    }
}

/// An empty folder to build a suite in.
fn workplace(workshop: &Workshop, name: &str) -> anyhow::Result<PathBuf> {
    let folder = workshop.place.target.join("soak/mallocs").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn ours(workshop: &Workshop, name: &str) -> PathBuf {
    workshop.scripts.join("mallocs").join(name)
}

/// A case of a program without arguments.
fn case(name: &str, program: PathBuf) -> Case {
    Case {
        under: column::HARDENED,
        skip_words: &["unsupported"],
        limit: Duration::from_secs(300),
        ..Case::new(name, [program])
    }
}

/// A plan whose first program says which malloc it is bound to.
fn plan(cases: Vec<Case>, probe: &Path) -> Plan {
    plan_of(&[probe], cases)
}

/// A program that does nothing but malloc: asked which one it has.
fn probe(folder: &Path) -> anyhow::Result<PathBuf> {
    let source = folder.join("probe.c");
    std::fs::write(
        &source,
        "#include <stdlib.h>\nint main(void) { free(malloc(1)); free(calloc(1, 1)); return 0; }\n",
    )?;
    Build { folder, compiler: "cc", flags: Vec::new() }.program("probe", &[source], &[])
}

/// glibc's tests that test its own insides (the last two: that it finds its overwritten header, and the words of its
/// statistics), or interpose a malloc of their own: they say nothing about another malloc.
const GLIBC_INSIDES: &[&str] = &[
    "tst-alloc_buffer",
    "tst-compathooks",
    "tst-dynarray",
    "tst-interpose",
    "tst-mallocstate",
    "tst-mtrace",
    "tst-safe-linking",
    "tst-scratch_buffer",
    "tst-malloc-backtrace",
    "tst-malloc-stats-cancellation",
];

/// The headers of glibc's test library that the tests name.
const GLIBC_HEADERS: &[&str] = &[
    "array_length.h",
    "libc-diag.h",
    "malloc-size.h",
    "support/check.h",
    "support/support.h",
    "support/temp_file.h",
    "support/test-driver.h",
    "support/xsignal.h",
    "support/xthread.h",
    "support/xunistd.h",
];

fn glibc(workshop: &Workshop) -> anyhow::Result<Plan> {
    let tests = source(workshop, "glibc", true)?.join("malloc");
    let folder = workplace(workshop, "glibc")?;
    std::fs::create_dir_all(folder.join("support"))?;
    std::fs::create_dir_all(folder.join("malloc"))?;
    for header in GLIBC_HEADERS {
        std::fs::write(folder.join(header), "#include <shim.h>\n")?;
    }
    // The older tests include the driver by a path from their own folder, which is why they are copied.
    std::fs::write(folder.join("support/test-driver.c"), "#include <driver.h>\n")?;
    let older = "#define SOAK_EXPRESSION\n#include <driver.h>\n";
    std::fs::write(folder.join("test-skeleton.c"), older)?;
    let shim = ours(workshop, "glibc");
    let flags = vec!["-std=gnu11".to_owned(), include(&shim), include(&folder)];
    let build = Build { folder: &folder, compiler: "cc", flags };
    let copies = folder.join("malloc");
    for file in files(&tests)? {
        std::fs::copy(&file, copies.join(format!("{}.c", stem(&file))))?;
    }
    let mut cases = Vec::new();
    for copy in files(&copies)? {
        let name = stem(&copy);
        let wanted = name.starts_with("tst-") || name == "mallocbug";
        if wanted && !GLIBC_INSIDES.iter().any(|inside| name.starts_with(inside)) {
            cases.push(case(&name, build.program(&name, &[copy], &[])?));
        }
    }
    Ok(plan(cases, &probe(&folder)?))
}

/// jemalloc's tests that call nothing of its own but for what our header answers.
const JEMALLOC: &[&str] =
    &["malloc.c", "aligned_alloc.c", "posix_memalign.c", "overflow.c", "cpp/basic.cpp"];

fn jemalloc(workshop: &Workshop) -> anyhow::Result<Plan> {
    let tests = source(workshop, "jemalloc", true)?.join("test/integration");
    let folder = workplace(workshop, "jemalloc")?;
    std::fs::create_dir_all(folder.join("test"))?;
    let header = ours(workshop, "jemalloc/jemalloc_test.h");
    std::fs::copy(header, folder.join("test/jemalloc_test.h"))?;
    let mut cases = Vec::new();
    for file in JEMALLOC.iter().map(|name| tests.join(name)).filter(|file| file.is_file()) {
        let cpp = file.extension().is_some_and(|end| end == "cpp");
        let compiler = if cpp { "c++" } else { "cc" };
        let build = Build { folder: &folder, compiler, flags: vec![include(&folder)] };
        cases.push(case(&stem(&file), build.program(&stem(&file), &[file], &[])?));
    }
    Ok(plan(cases, &probe(&folder)?))
}

fn mimalloc(workshop: &Workshop) -> anyhow::Result<Plan> {
    let tests = source(workshop, "mimalloc", true)?.join("test");
    let folder = workplace(workshop, "mimalloc")?;
    std::fs::create_dir_all(folder.join("mimalloc"))?;
    std::fs::write(folder.join("mimalloc/types.h"), "#include <mimalloc.h>\n")?;
    std::fs::write(folder.join("mimalloc-types.h"), "#include <mimalloc.h>\n")?;
    for file in ["test-api.c", "test-stress.c"] {
        std::fs::copy(tests.join(file), folder.join(file))?;
    }
    std::fs::copy(ours(workshop, "mimalloc/testhelper.h"), folder.join("testhelper.h"))?;
    let flags = vec![include(&ours(workshop, "mimalloc")), include(&folder)];
    let build = Build { folder: &folder, compiler: "cc", flags };
    let api = build.program("test-api", &[folder.join("test-api.c")], &[])?;
    let stress_source = folder.join("test-stress.c");
    let stress = build.program("test-stress", &[stress_source], &["-DUSE_STD_MALLOC"])?;
    let listed = Command::new(&api).env("SOAK_CHECK", "list").output()?;
    let names = String::from_utf8(listed.stdout).context("test-api's names")?;
    let mut cases: Vec<Case> = names
        .lines()
        .map(|name| Case {
            env: vec![("SOAK_CHECK", name.to_owned())],
            ..case(&format!("api {name}"), api.clone())
        })
        .collect();
    // Threads, percent of the usual load, rounds.
    for words in [["8", "10", "10"], ["32", "5", "5"]] {
        let command = [stress.display().to_string()].into_iter().chain(words.map(str::to_owned));
        let name = format!("stress {}", words.join(" "));
        cases.push(Case { under: column::HARDENED, ..Case::new(name, command) });
    }
    Ok(plan(cases, &probe(&folder)?))
}

/// The tests that are about malloc, and do not take all of the machine's memory. Not `mallinfo01` and `02`: they ask for
/// glibc's own counts (one free chunk more than at the start, whatever was asked for since; a header in each block's bytes).
const LTP: &[&str] = &[
    "syscalls/mallinfo2/mallinfo2_01.c",
    "syscalls/mallopt/mallopt01.c",
    "mem/mem/mem02.c",
    "mem/mtest07/mallocstress.c",
];

fn ltp(workshop: &Workshop) -> anyhow::Result<Plan> {
    let tests = source(workshop, "ltp", false)?.join("testcases/kernel");
    let folder = workplace(workshop, "ltp")?;
    let shim = ours(workshop, "ltp");
    std::fs::write(
        folder.join("config.h"),
        "#define HAVE_MALLINFO 1\n#define HAVE_MALLINFO2 1\n#define HAVE_MALLOPT 1\n",
    )?;
    for header in ["tst_safe_macros.h", "tst_safe_pthread.h"] {
        std::fs::write(folder.join(header), "#include <tst_test.h>\n")?;
    }
    let flags = [&shim, &folder, &tests.join("syscalls/mallinfo")].map(|at| include(at)).to_vec();
    let build = Build { folder: &folder, compiler: "cc", flags };
    let mut cases = Vec::new();
    for file in LTP.iter().map(|name| tests.join(name)).filter(|file| file.is_file()) {
        cases.push(case(&stem(&file), build.program(&stem(&file), &[file], &[])?));
    }
    Ok(plan(cases, &probe(&folder)?))
}

/// Under glibc they take memory until the machine has none.
const LIBC_TEST_GREEDY: &[&str] = &["setvbuf-unget"];

fn libc_test(workshop: &Workshop) -> anyhow::Result<Plan> {
    const LIBRARIES: &[&str] = &["-lm", "-lrt", "-lcrypt", "-ldl", "-lresolv", "-lutil"];
    let base = source(workshop, "libc-test", false)?.join("src");
    let folder = workplace(workshop, "libc-test")?;
    let common = base.join("common");
    let mut library = files(&common)?;
    library.retain(|file| !matches!(stem(file).as_str(), "runtest" | "mtest"));
    let flags = vec!["-std=c99".to_owned(), "-D_FILE_OFFSET_BITS=64".to_owned(), include(&common)];
    let build = Build { folder: &folder, compiler: "cc", flags };
    let mut cases = Vec::new();
    for part in ["functional", "regression"] {
        for file in files(&base.join(part))? {
            let name = format!("{part}/{}", stem(&file));
            let sources: Vec<PathBuf> = std::iter::once(file).chain(library.clone()).collect();
            if LIBC_TEST_GREEDY.contains(&stem(&sources[0]).as_str()) {
                continue;
            }
            // Some test another C library's calls, or are parts of others.
            if let Ok(program) = build.program(&name, &sources, LIBRARIES) {
                cases.push(case(&name, program));
            }
        }
    }
    Ok(plan(cases, &probe(&folder)?))
}

fn include(folder: &Path) -> String {
    format!("-I{}", folder.display())
}

/// The C files of a folder, sorted.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    super::suites::files(folder, ".c")
}

fn stem(file: &Path) -> String {
    super::suites::stem(file)
}
