//! libfreehold.so in programs of C and C++: built once, preloaded, asked what standards promise.
//!
//! Each program of `programs/` checks itself, prints what it found wrong, and exits with 0 when
//! that was nothing. Without a C compiler a test says so and passes.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{compile, library};

#[track_caller]
fn passes(source: &str) {
    let program = compile(source);
    support::assert_passed(source, &support::run(&program, &[], &[]));
}

fn the_standards_answers() {
    passes("standards.c");
}

fn operator_new_throws_and_handles() {
    passes("operators.cpp");
}

fn threads_come_and_go() {
    passes("threads.c");
}

fn children_of_busy_threads_allocate() {
    passes("forks.c");
}

fn idle_programs_shrink() {
    passes("idle.c");
}

/// `packed.c`, which is linked with the library.
fn packed() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/packed.c");
    support::compile_with(&source, &[library().as_os_str()])
}

fn blocks_move_to_fuller_slabs() {
    support::assert_passed("packed.c", &support::run(&packed(), &[], &[]));
}

fn blocks_stay_in_hardened_and_sampled_programs() {
    let program = packed();
    for options in
        [("FREEHOLD_SECURE", "1"), ("FREEHOLD_PROFILE", "/dev/null"), ("FREEHOLD_STATS", "1")]
    {
        support::assert_passed("packed.c", &support::run(&program, &["stays"], &[options]));
    }
}

fn of_everything_freed_next_to_nothing_stays() {
    passes("freed.c");
}

fn address_space_may_be_short() {
    passes("limited.c");
}

fn a_limit_refuses_instead_of_killing() {
    let program = compile("limited.c");
    let output = Command::new(&program)
        // The argument tells the program that the limit is somebody else's.
        .arg("limited")
        .env("LD_PRELOAD", library())
        .env("FREEHOLD_LIMIT", "200M")
        .output()
        .expect("what was compiled runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn a_library_loaded_late_finds_its_thread_local_word() {
    let program = compile("late.c");
    let library = library().to_str().expect("a path of ours");
    let output = Command::new(&program).arg(library).output().expect("what was compiled runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// `ordblks` and the figures of large blocks were always 0.
fn mallinfo_tells_of_free_and_of_large_blocks() {
    let program = compile("figures.c");
    let still = [("FREEHOLD_PURGE", "off")];
    support::assert_passed("figures.c", &support::run(&program, &[], &still));
}

fn memory_that_was_never_written_may_be_copied() {
    let program = compile("unwritten.c");
    support::assert_passed("unwritten.c", &support::run(&program, &[], &[]));
}

/// `freehold run -- faketime …` hung: `getpid`, by which the malloc kept whose its file of statistics is, was libfaketime's.
fn functions_in_front_of_the_c_library_may_allocate() {
    let shared = ["-shared", "-fPIC", "-ldl"].map(AsRef::as_ref);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/in_front.c");
    let (program, in_front) = (compile("threads.c"), support::compile_with(&source, &shared));
    let written = support::folder().join(format!("in-front-{}", std::process::id()));
    let written = written.to_str().expect("a path of ours");
    for libraries in [[library(), &in_front], [&in_front, library()]] {
        let [first, second] = libraries.map(|library| library.to_str().expect("a path of ours"));
        for option in ["FREEHOLD_REPORT", "FREEHOLD_PROFILE", "FREEHOLD_SECURE", "FREEHOLD_LIMIT"] {
            let value = match option {
                "FREEHOLD_SECURE" => "1",
                "FREEHOLD_LIMIT" => "auto",
                _ => written,
            };
            let output = Command::new(&program)
                .env("LD_PRELOAD", format!("{first}:{second}"))
                .env(option, value)
                .output()
                .expect("what was compiled runs");
            support::assert_passed(option, &output);
            if value == written {
                std::fs::remove_file(written).expect("the library wrote it");
            }
        }
    }
}

fn a_bad_option_is_a_warning() {
    let program = compile("standards.c");
    let output = Command::new(&program)
        .env("LD_PRELOAD", library())
        .env("FREEHOLD_PURGE", "sometimes")
        .output()
        .expect("what was compiled runs");
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("FREEHOLD_PURGE=sometimes") && said.contains("on, off"), "{said:?}");
}

fn no_start_up_code() {
    let bytes = std::fs::read(library()).expect("built");
    // The word of thread-local storage must be reached without a call.
    let needle = b"__tls_get_addr";
    assert!(!bytes.windows(needle.len()).any(|window| window == needle));
}

/// `sections.ld`: the front, 64 KiB, and nothing behind it. (Of ten: a step of 64 KiB with which the kernel maps code begins elsewhere in each process.) Where
/// the rest lay behind it in one segment, 100 to 144; where the code lay as it came, 144 to 208.
fn little_of_the_code_is_in_memory() {
    let program = compile("resident.c");
    let resident = |_| -> u32 {
        let output = support::run(&program, &[], &[]);
        String::from_utf8_lossy(&output.stdout).parse().expect("KiB")
    };
    let most = (0..10).map(resident).max().expect("ten");
    assert!((16..=72).contains(&most), "{most} KiB");
}

/// `sections.ld` names the sections of both. Were one called otherwise, say after another alias, it would be passed over
/// without a word.
fn the_hot_path_lies_where_it_was_put() {
    let output = support::run(&compile("placed.c"), &[], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "32 0");
}

freehold_testkit::trials! {
    the_standards_answers,
    operator_new_throws_and_handles,
    threads_come_and_go,
    children_of_busy_threads_allocate,
    idle_programs_shrink,
    blocks_move_to_fuller_slabs,
    blocks_stay_in_hardened_and_sampled_programs,
    of_everything_freed_next_to_nothing_stays,
    address_space_may_be_short,
    a_limit_refuses_instead_of_killing,
    a_library_loaded_late_finds_its_thread_local_word,
    mallinfo_tells_of_free_and_of_large_blocks,
    functions_in_front_of_the_c_library_may_allocate,
    a_bad_option_is_a_warning,
    memory_that_was_never_written_may_be_copied,
    no_start_up_code,
    little_of_the_code_is_in_memory,
    the_hot_path_lies_where_it_was_put,
}
