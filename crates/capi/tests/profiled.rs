//! The heap profile: how long blocks live, which builds the code is of, sums, and the probes for tracers outside.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{assert_passed, compile, compile_with, folder, library, pprof, run};

/// Runs a program with a sample in so many bytes; what it printed, and its profile.
fn profile(program: &Path, rate: &str) -> (String, Vec<u8>) {
    let file = program.with_extension("pb");
    let path = file.to_str().expect("a path of ours");
    let output = run(program, &[], &[("FREEHOLD_PROFILE", path), ("FREEHOLD_PROFILE_RATE", rate)]);
    assert_passed(path, &output);
    let said = String::from_utf8(output.stdout).expect("text");
    (said, fs::read(&file).expect("written at exit"))
}

fn blocks_are_told_apart_by_how_long_they_live() {
    let (_, bytes) = profile(&compile("spans.c"), "4K");
    // Of the program's own 36 MB: 12 each; a standard deviation is 2.1 %.
    let sum = |name: &str, text: &str| {
        let is = |sample: &pprof::Sample| sample.label == Some((name.to_owned(), text.to_owned()));
        let mut sums = [0; 2];
        for sample in pprof::samples(&bytes).filter(is) {
            sums[0] += sample.values[1];
            sums[1] += sample.values[3];
        }
        sums
    };
    let near = |value: i64| {
        let ratio = value as f64 / 12e6;
        assert!((0.9..1.1).contains(&ratio), "{value}, {ratio} of what it should be");
    };
    let [for_a_second, none] = sum("lifetime", "1 s to 1 min");
    near(for_a_second);
    assert_eq!(none, 0, "what was freed is not in use");
    let [ever, in_use] = sum("age", "1 s to 1 min");
    near(in_use);
    assert_eq!(ever, in_use, "what is in use was allocated");
    // On a busy machine a moment may be long, but not a second.
    near(sum("lifetime", "under 1 ms")[0] + sum("lifetime", "1 ms to 1 s")[0]);
    assert!(sum("lifetime", "under 1 ms")[0] > 6_000_000, "most go at once");
    assert_eq!(sum("lifetime", "over 1 h"), [0, 0]);
}

/// What `readelf` says of a file's notes.
fn notes(file: &Path) -> String {
    let output = Command::new("readelf").arg("-n").arg(file).output();
    let Ok(output) = output else {
        freehold_testkit::skip("there is no readelf here (apt install binutils)");
        return String::new();
    };
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn code_is_named_with_its_build() {
    let program = compile_with(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/spans.c"),
        &["-Wl,--build-id".as_ref()],
    );
    let (_, bytes) = profile(&program, "1M");
    let mut checked = Vec::new();
    for mapping in pprof::mappings(&bytes) {
        let file = PathBuf::from(&mapping.file);
        let notes = notes(&file);
        let said = notes.split("Build ID: ").nth(1).and_then(|rest| rest.lines().next());
        assert_eq!(mapping.build_id, said.unwrap_or(""), "{}", mapping.file);
        if !mapping.build_id.is_empty() {
            checked.push(file);
        }
    }
    let program = fs::canonicalize(program).expect("compiled");
    assert!(checked.contains(&program), "{checked:?}");
    assert!(checked.len() >= 3, "the program, the malloc, the C library: {checked:?}");
}

fn sums_of_programs_in_three_languages_are_right() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let rust = folder().join(format!("sums-rs-{}", std::process::id()));
    let compiled = Command::new("rustc")
        .args(["-O", "--edition=2024", "-Aunsafe_op_in_unsafe_fn", "-o"])
        .args([&rust, &programs.join("sums.rs")])
        .output();
    let Ok(compiled) = compiled else {
        return freehold_testkit::skip("there is no rustc here (rustup.rs)");
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let programs = [
        (compile_with(&programs.join("sites.c"), &[library().as_os_str()]), Some(58e6)),
        (compile_with(&programs.join("sums.cpp"), &["-O2".as_ref()]), None),
        (rust, None),
    ];
    for (program, asked) in programs {
        let (said, bytes) = profile(&program, "1K");
        let asked = asked.unwrap_or_else(|| said.trim().parse().expect("bytes"));
        let [_, sum, _, _] = pprof::sum(&bytes);
        let ratio = sum as f64 / asked;
        println!("{}: {ratio:.3} of {asked} bytes", program.display());
        // 30 MB and more at a sample in 1 KiB: a standard deviation is below 1 %.
        assert!((0.95..1.05).contains(&ratio), "{}: {ratio}", program.display());
    }
}

fn probes_are_told_in_notes() {
    let notes = notes(library());
    for (name, arguments) in [("alloc", "8@%rdi 8@%rsi 8@%rdx"), ("free", "8@%rdi")] {
        let found = notes.split("Provider: otel_memory").find(|note| {
            note.contains(&format!("Name: {name}\n"))
                && note.contains(&format!("Arguments: {arguments}\n"))
        });
        assert!(found.is_some(), "{name} is not among {notes}");
    }
    assert_eq!(notes.matches("Provider: otel_memory").count(), 2, "each is in one place");
}

/// A tracer's view: where the probes are, with what, and from where.
fn gdb_stops_at_probes() {
    let program = compile_with(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/spans.c"),
        &["-g".as_ref()],
    );
    let file = program.with_extension("pb");
    let commands = [
        &format!("set environment LD_PRELOAD {}", library().display()),
        &format!("set environment FREEHOLD_PROFILE {}", file.display()),
        // Every block of the program's is a sample.
        "set environment FREEHOLD_PROFILE_RATE 1K",
        "break main",
        "run",
        "delete",
        "break -probe-stap otel_memory:alloc",
        "continue",
        "print $_probe_argc",
        "print $_probe_arg1",
        "print $_probe_arg2",
        "set $block = $_probe_arg0",
        "backtrace",
        "delete",
        "break -probe-stap otel_memory:free",
        "continue",
        "print $_probe_arg0 == $block",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set startup-with-shell off"]);
    gdb.args(["-iex", "set debuginfod enabled off"]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let Ok(output) = gdb.arg(&program).output() else {
        return freehold_testkit::skip("there is no gdb here (apt install gdb)");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let all = || format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for wanted in ["$1 = 3\n", "$2 = 40000\n", "$3 = 40000\n", " asks (", " main (", "$4 = 1\n"] {
        assert!(said.contains(wanted), "no {wanted:?}: {}", all());
    }
}

freehold_testkit::trials! {
    blocks_are_told_apart_by_how_long_they_live,
    code_is_named_with_its_build,
    sums_of_programs_in_three_languages_are_right,
    probes_are_told_in_notes,
    gdb_stops_at_probes,
}
