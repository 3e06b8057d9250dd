//! Debian packages, installed into an empty root, used from there, and taken away again; and the notices in each package.
//!
//! `BUILT_PACKAGES` names the folder of packages that `cargo xtask package deb` and `wheel` built: a test does not spend the minutes that takes.

use freehold_testkit::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Bytes that the command may have. (It has 11.7 million; docs/packages.md says what was done for that, and what is left to do.)
const MOST: u64 = 12_000_000;

/// An empty root with packages in it.
struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    fn with(packages: &[&str]) -> Option<Root> {
        let built = built()?;
        if Command::new("dpkg").arg("--version").output().is_err() {
            skip("there is no dpkg here");
            return None;
        }
        let root = Root { folder: tempfile::tempdir().unwrap() };
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(root.path("var/lib/dpkg").join(folder)).unwrap();
        }
        fs::write(root.path("var/lib/dpkg/status"), "").unwrap();
        let files = packages_in(&built, packages);
        assert_done("dpkg --install", &root.dpkg().arg("--install").args(files).output().unwrap());
        Some(root)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The empty root has no libc for its packages, and needs no super-user.
    fn dpkg(&self) -> Command {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--root").arg(self.folder.path()).args(["--force-not-root", "--force-depends"]);
        dpkg.arg("--log=/dev/null");
        dpkg
    }

    /// Removes the packages, and gives the files that are left.
    fn purge(&self, packages: &[&str]) -> Vec<PathBuf> {
        assert_done("dpkg --purge", &self.dpkg().arg("--purge").args(packages).output().unwrap());
        let mut left = files(self.folder.path());
        left.retain(|path| !path.starts_with(self.path("var/lib/dpkg")));
        left
    }
}

/// The folder of packages.
fn built() -> Option<PathBuf> {
    let built = std::env::var_os("BUILT_PACKAGES").map(PathBuf::from);
    if built.is_none() {
        skip("BUILT_PACKAGES names no folder (cargo xtask package deb)");
    }
    built
}

/// The one file of each package.
fn packages_in(built: &Path, packages: &[&str]) -> Vec<PathBuf> {
    let files = fs::read_dir(built).unwrap().flatten().map(|entry| entry.path());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.ends_with(".deb") && packages.iter().any(|one| name.starts_with(&format!("{one}_")))
    };
    let files: Vec<PathBuf> = files.filter(wanted).collect();
    assert_eq!(files.len(), packages.len(), "one file a package in {}", built.display());
    files
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let all =
        |path: PathBuf| if path.is_dir() && !path.is_symlink() { files(&path) } else { vec![path] };
    entries.flat_map(all).collect()
}

fn assert_done(what: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {} {said}", String::from_utf8_lossy(&output.stdout));
}

fn the_command_records_and_replays_and_leaves_nothing() {
    let Some(root) = Root::with(&["freehold"]) else { return };
    let command = root.path("usr/bin/freehold");
    let bytes = command.metadata().unwrap().len();
    assert!(bytes < MOST, "{bytes} bytes, at most {MOST} are allowed");
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut started = Command::new(&command);
        started.args(arguments).current_dir(home.path()).env("HOME", home.path());
        let output = started.env_remove("XDG_CACHE_HOME").output().unwrap();
        assert_done(&format!("{arguments:?}"), &output);
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["record", "-o", "ls.fht", "--", "ls", "/"]);
    assert!(run(&["replay", "ls.fht", "--on", "best-fit,malloc"]).contains("best-fit"));
    for file in [
        "share/man/man1/freehold-record.1.gz",
        "share/bash-completion/completions/freehold",
        "share/fish/vendor_completions.d/freehold.fish",
        "share/zsh/vendor-completions/_freehold",
        "share/doc/freehold/changelog.gz",
    ] {
        assert!(root.path("usr").join(file).metadata().unwrap().len() > 100, "{file}");
    }
    assert_eq!(root.purge(&["freehold"]), Vec::<PathBuf>::new());
    let mut left = files(home.path());
    left.retain(|path| !path.starts_with(home.path().join(".cache/freehold")));
    assert_eq!(left, [home.path().join("ls.fht")], "docs/packages.md says what is left");
}

/// The notices of the crates in the command: of what it links, not of what only tests do, and with texts.
fn assert_tells_of_crates(notices: &str) {
    assert!(!notices.contains("=== proptest "), "only tests link it");
    for wanted in ["clap", "libc", "zstd-sys", "parquet"] {
        assert!(notices.contains(&format!("\n=== {wanted} ")), "it links {wanted}");
    }
    for text in ["Permission is hereby granted", "Apache License", "Redistributions in binary form"]
    {
        assert!(notices.contains(text), "{text}");
    }
    let crates = notices.split("\n=== ").skip(1);
    let without: Vec<&str> = crates.filter(|one| !one.contains("\n--- ")).collect();
    assert!(without.is_empty(), "without a text: {without:?}");
}

fn every_debian_package_has_the_notices_of_what_it_contains() {
    let packages = ["freehold", "libfreehold1", "libfreehold-dev"];
    let Some(root) = Root::with(&packages) else { return };
    for package in packages {
        let library = root.path("usr/share/doc").join(package).join("RUST-LIBRARY.html.gz");
        let output = Command::new("gzip").arg("-cd").arg(library).output().unwrap();
        assert_done("gzip", &output);
        assert_tells_of_the_standard_library(&String::from_utf8_lossy(&output.stdout));
    }
    let crates = root.path("usr/share/doc/freehold/THIRD-PARTY");
    assert_tells_of_crates(&fs::read_to_string(crates).unwrap());
}

fn assert_tells_of_the_standard_library(notices: &str) {
    assert!(notices.contains("Copyright notices for The Rust Standard Library"), "{notices}");
    assert!(notices.contains("hashbrown-0"), "what it contains itself");
}

fn the_wheel_has_the_notices_of_what_it_contains() {
    let Some(built) = built() else { return };
    let wheels = files(&built).into_iter().filter(|file| file.extension() == Some("whl".as_ref()));
    let [wheel] = &wheels.collect::<Vec<_>>()[..] else { panic!("one wheel in {built:?}") };
    let folder = tempfile::tempdir().unwrap();
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder.path());
    assert_done("zipfile", &unzip.output().unwrap());
    let information = format!("freehold-{}.dist-info/licenses", env!("CARGO_PKG_VERSION"));
    let read =
        |name: &str| fs::read_to_string(folder.path().join(&information).join(name)).expect(name);
    assert_tells_of_crates(&read("THIRD-PARTY"));
    assert_tells_of_the_standard_library(&read("RUST-LIBRARY.html"));
    assert!(read("LICENSE-MIT").contains("Permission is hereby granted"));
    assert!(read("LICENSE-APACHE").contains("Apache License"));
}

/// The command, and what it unpacks: both recorders, the malloc, the replayer.
fn the_command_and_all_that_it_holds_want_no_glibc_after_2_28() {
    let Some(root) = Root::with(&["freehold"]) else { return };
    let home = tempfile::tempdir().unwrap();
    let command = root.path("usr/bin/freehold");
    for arguments in [
        &["record", "-o", "ls.fht", "--stacks", "all", "--", "ls", "/"][..],
        &["record", "-o", "ls.fht", "--stacks", "off", "--", "ls", "/"],
        &["replay", "ls.fht", "--on", "glibc", "--runs", "1"],
        &["run", "--library"],
    ] {
        let mut started = Command::new(&command);
        started.args(arguments).current_dir(home.path()).env("XDG_CACHE_HOME", home.path());
        assert_done(&format!("{arguments:?}"), &started.output().unwrap());
    }
    let mut programs = files(&home.path().join("freehold"));
    assert_eq!(programs.len(), 4, "{programs:?}");
    programs.push(command);
    for program in programs {
        let output = Command::new("objdump").arg("-T").arg(&program).output().unwrap();
        assert_done("objdump", &output);
        let symbols = String::from_utf8_lossy(&output.stdout);
        let versions: Vec<&str> = symbols
            .split("GLIBC_")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next())
            .collect();
        assert!(!versions.is_empty(), "{}: {symbols}", program.display());
        let newer = |version: &&str| {
            let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap());
            (numbers.next(), numbers.next()) > (Some(2), Some(28))
        };
        let newer: Vec<&str> = versions.into_iter().filter(newer).collect();
        assert!(newer.is_empty(), "{}: {newer:?}", program.display());
    }
}

fn a_stranger_links_the_library_by_cmake_and_pkg_config() {
    let packages = ["libfreehold1", "libfreehold-dev"];
    let Some(root) = Root::with(&packages) else { return };
    let consumer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/cmake/consumer");
    let build = tempfile::tempdir().unwrap();
    let configured = Command::new("cmake")
        .arg("-S")
        .arg(&consumer)
        .arg("-B")
        .arg(build.path())
        .arg(format!("-DCMAKE_PREFIX_PATH={}", root.path("usr").display()))
        .output();
    let Ok(configured) = configured else { return skip("there is no cmake (apt install cmake)") };
    assert_done("cmake", &configured);
    let built = Command::new("cmake").arg("--build").arg(build.path()).output().unwrap();
    assert_done("cmake --build", &built);
    let lib = root.path("usr/lib/x86_64-linux-gnu");
    for program in ["consumer", "consumer_static"] {
        let output = Command::new(build.path().join(program)).output().unwrap();
        assert_done(program, &output);
        assert_eq!(output.stdout, b"small: given, large: refused\n", "{program}");
    }
    let libraries = Command::new("ldd").arg(build.path().join("consumer_static")).output().unwrap();
    assert!(!String::from_utf8_lossy(&libraries.stdout).contains("libfreehold"), "it needs none");

    let mut ls = Command::new("ls");
    ls.arg("/").env("LD_PRELOAD", lib.join("libfreehold.so.1")).env("FREEHOLD_STATS", "on");
    let output = ls.output().unwrap();
    assert_done("a preloaded program", &output);
    let asked = Command::new("pkg-config")
        .args(["--modversion", "freehold"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), env!("CARGO_PKG_VERSION"));
    assert_eq!(root.purge(&packages), Vec::<PathBuf>::new());
}

/// All of libfreehold.a and of the C library in one program: there is no next function of a name for any of ours to lead to.
fn a_program_that_needs_no_library_at_all() {
    let Some(root) = Root::with(&["libfreehold1", "libfreehold-dev"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("static.c"), folder.path().join("static"));
    let text = "#define _GNU_SOURCE
        #include <freehold.h>
        #include <pthread.h>
        #include <sched.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void *allocates(void *unused) { free(malloc(100)); return unused; }
        int main(void) {
            pthread_t thread;
            if (pthread_create(&thread, 0, allocates, 0) || pthread_join(thread, 0)) return 1;
            return setuid(getuid()) || setgid(getgid()) || unshare(0) || !freehold_heap_create(0, 0);
        }";
    fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-static", "-fno-builtin", "-pthread", "-o"]).arg(&program).arg(&source);
    cc.arg(format!("-I{}", root.path("usr/include").display()));
    cc.arg(root.path("usr/lib/x86_64-linux-gnu/libfreehold.a"));
    assert_done("cc -static", &cc.output().unwrap());
    assert_done("a static program", &Command::new(program).output().unwrap());
}

/// What lintian reports, warnings included, is a failure; `OVERRIDES` in `documents.rs` names what stays, and why.
fn lintian_finds_nothing() {
    let Some(built) = built() else { return };
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]);
    lintian.args(packages_in(&built, &["freehold", "libfreehold1", "libfreehold-dev"]));
    let Ok(output) = lintian.output() else {
        return skip("there is no lintian (apt install lintian)");
    };
    assert_done("lintian", &output);
}

freehold_testkit::trials! {
    lintian_finds_nothing,
    the_command_records_and_replays_and_leaves_nothing,
    every_debian_package_has_the_notices_of_what_it_contains,
    the_wheel_has_the_notices_of_what_it_contains,
    the_command_and_all_that_it_holds_want_no_glibc_after_2_28,
    a_stranger_links_the_library_by_cmake_and_pkg_config,
    a_program_that_needs_no_library_at_all,
}
