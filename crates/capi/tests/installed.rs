//! What is installed is what a stranger needs: the example programs build against it and run.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{folder, library};

/// Installs into a folder of its own; its path.
fn install(name: &str) -> PathBuf {
    let prefix = folder().join(format!("{name}-{}", std::process::id()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    let output = Command::new("sh")
        .arg(script)
        .arg(&prefix)
        .env("LIBRARY", library())
        // The archive is the packages' test's business: it takes a build of its own.
        .env("ARCHIVE", library())
        .env_remove("DESTDIR")
        .output()
        .expect("every system has a sh");
    support::assert_passed("install.sh", &output);
    prefix
}

fn build_and_run(example: &str, arguments: &[String], prefix: &Path) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let program = support::compile_with(&source, &arguments);
    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .output()
        .expect("what was compiled runs");
    support::assert_passed(example, &output);
    output
}

/// What a compiler is told by hand.
fn by_hand(prefix: &Path) -> Vec<String> {
    let prefix = prefix.display();
    vec![format!("-I{prefix}/include"), format!("-L{prefix}/lib"), "-lfreehold".to_owned()]
}

fn a_service_in_c() {
    let prefix = install("c");
    let output = build_and_run("service.c", &by_hand(&prefix), &prefix);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with("12000 words\na request of 4 MiB: 0 words, refused for its limit\n"),
        "{said}"
    );
    assert!(said.contains("{\"schema\":1,"), "{said}");
}

fn a_service_in_cxx() {
    let prefix = install("cxx");
    let mut arguments = by_hand(&prefix);
    arguments.push("-std=c++17".to_owned());
    let output = build_and_run("service.cpp", &arguments, &prefix);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("500 keys, ") && said.ends_with("bad_alloc\n"), "{said}");
}

fn pkg_config_says_how() {
    let prefix = install("pkg");
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "--print-errors", "freehold"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let Ok(asked) = asked else {
        return freehold_testkit::skip("there is no pkg-config here (apt install pkg-config)");
    };
    support::assert_passed("pkg-config", &asked);
    let arguments: Vec<String> =
        String::from_utf8_lossy(&asked.stdout).split_whitespace().map(str::to_owned).collect();
    build_and_run("service.c", &arguments, &prefix);
}

fn the_notices_of_all_that_the_library_contains_are_installed() {
    let documents = install("notices").join("share/doc/libfreehold");
    let read = |name: &str| fs::read_to_string(documents.join(name)).expect(name);
    assert!(read("LICENSE-MIT").contains("Permission is hereby granted"));
    assert!(read("LICENSE-APACHE").contains("Apache License"));
    let notices = read("RUST-LIBRARY.html");
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--package", "freehold-capi", "--edges", "normal"]);
    let output = tree.args(["--prefix", "none", "--format", "{lib}"]).output().expect("cargo");
    support::assert_passed("cargo tree", &output);
    let names = String::from_utf8(output.stdout).expect("names of crates");
    let foreign = names.lines().filter(|name| !name.is_empty() && !name.starts_with("freehold"));
    let mut count = 0;
    for name in foreign.map(|name| name.trim_end_matches(" (*)")) {
        assert!(notices.contains(&format!("{name}-0")), "the notices do not tell of {name}");
        count += 1;
    }
    assert!(count > 0, "the library needs libc: {names}");
}

fn uninstalling_leaves_nothing_and_what_others_have() {
    let prefix = install("gone");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    let uninstall = || {
        let mut sh = Command::new("sh");
        sh.arg(&script).arg("--uninstall").arg(&prefix).env_remove("DESTDIR");
        support::assert_passed("install.sh --uninstall", &sh.output().expect("a sh"));
    };
    let foreign = prefix.join("lib/pkgconfig/other.pc");
    fs::write(&foreign, "").expect("a disk");
    uninstall();
    let left = fs::read_dir(prefix.join("lib")).expect("another's").flatten();
    assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["pkgconfig"]);
    assert!(foreign.exists() && !prefix.join("include").exists() && !prefix.join("share").exists());
    fs::remove_file(foreign).expect("ours");
    uninstall();
    assert!(!prefix.exists(), "an empty folder is left");
}

fn the_header_declares_what_the_library_has() {
    let header =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/freehold.h"))
            .expect("the header");
    let declared = header
        .lines()
        .filter(|line| line.ends_with(';') || line.contains("(*visit)"))
        .filter_map(|line| {
            let name = line.split('(').next()?.split([' ', '*']).next_back()?;
            (line.contains('(') && name.starts_with("freehold_")).then(|| name.to_owned())
        });
    let bytes = fs::read(library()).expect("built");
    let mut count = 0;
    for name in declared {
        let needle = [b"\0", name.as_bytes(), b"\0"].concat();
        assert!(bytes.windows(needle.len()).any(|window| window == needle), "no {name}");
        count += 1;
    }
    assert!(count >= 12, "only {count} declarations were found");
}

fn the_header_tells_every_option() {
    let header =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/freehold.h"))
            .expect("the header");
    let rows = header.lines().filter(|line| line.starts_with(" *   FREEHOLD_"));
    let told: Vec<&str> =
        rows.filter_map(|line| line.trim_start_matches(" *   ").split('=').next()).collect();
    let names = freehold::OPTIONS.iter().map(|row| row.name.to_str().expect("ASCII"));
    assert_eq!(told, names.collect::<Vec<_>>());
}

freehold_testkit::trials! {
    a_service_in_c,
    a_service_in_cxx,
    pkg_config_says_how,
    the_notices_of_all_that_the_library_contains_are_installed,
    uninstalling_leaves_nothing_and_what_others_have,
    the_header_declares_what_the_library_has,
    the_header_tells_every_option,
}
