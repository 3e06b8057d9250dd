//! Heaps in bounded time, from C: what the header promises, and the example.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::path::Path;

#[test]
fn both_modes_keep_their_word() {
    let library = support::library();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/realtime.c");
    let program = support::compile_with(&source, &[library.as_os_str()]);
    support::assert_passed("realtime.c", &support::run(&program, &[], &[]));
}

#[test]
fn a_periodic_task_while_another_thread_frees() {
    let library = support::library();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/periodic.c");
    let program = support::compile_with(&source, &[library.as_os_str()]);
    let output = support::run(&program, &["300", "100"], &[]);
    support::assert_passed("periodic.c", &output);
    let expected: u64 = (0..300_u64).map(|number| (1 + number * 37 % 4096) * (number % 256)).sum();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, format!("300 messages, sum of their bytes {expected}, check 0\n"));
}
