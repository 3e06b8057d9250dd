//! The guest itself: it boots with the nodes that were asked for, and brings everything back.

use freehold_guest::{Bytes, Dimm, Job, Kernel, Machine, missing_tool};
use std::path::Path;
use std::time::Duration;

freehold_testkit::trials!(
    the_kernel_sees_the_machine_that_was_asked_for,
    output_files_and_exit_code_come_back,
    a_guest_that_dies_says_so,
    a_guest_that_does_not_end_says_what_it_waits_for,
    a_guest_that_does_not_boot_is_booted_again_and_then_told_of,
);

fn kernel() -> Kernel {
    if let Some(missing) = missing_tool() {
        freehold_testkit::skip(&missing);
    }
    Kernel::find(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|why| {
        freehold_testkit::skip(&format!("{why:#}"));
        unreachable!("a trial ends there")
    })
}

const MIB: u64 = 1 << 20;

fn the_kernel_sees_the_machine_that_was_asked_for() {
    let kernel = kernel();
    let machine = Machine::even(4, 8, Bytes(2048 * MIB)).expect("a machine");
    let machine = machine
        .with_memory_only(Bytes(256 * MIB))
        .with_dimm(Dimm { memory: Bytes(256 * MIB), node: 1 });
    let script = "cd /sys/devices/system/node
        cat has_cpu has_memory node0/distance node1/distance node4/distance node3/cpulist
        cat node4/meminfo | grep MemTotal | awk '{ print ($4 > 100000) }'
        cat /sys/devices/system/memory/memory*/state | sort | uniq -c";
    let done = Job::new(machine, script).run(&kernel).expect("the guest runs");
    let lines: Vec<&str> = done.stdout.lines().map(str::trim).collect();
    let expected = ["0-3", "0-4", "10 20 30 20 40", "20 10 20 30 40", "40 40 40 40 10", "6-7", "1"];
    assert_eq!(lines[..7], expected, "{}", done.stdout);
    assert_eq!(lines[7], "2 offline", "{}", done.stdout);
}

/// A script on the smallest machine.
fn small(script: &str) -> Job {
    Job::new(Machine::even(1, 1, Bytes(256 * MIB)).expect("a machine"), script)
}

fn output_files_and_exit_code_come_back() {
    let kernel = kernel();
    let mut job = small(
        "/given | tr a-z A-Z; echo trouble >&2; mkdir /out/deep; seq 3 >/out/deep/numbers; exit 7",
    );
    // A dynamic program: its libraries must come along.
    job.files.push(("/bin/hostname".into(), "/given".to_owned()));
    let done = job.run(&kernel).expect("the guest runs");
    assert_eq!((done.code, done.stdout.trim(), done.stderr.trim()), (7, "(NONE)", "trouble"));
    let numbers = std::fs::read_to_string(done.files.path().join("deep/numbers"));
    assert_eq!(numbers.expect("it was left there"), "1\n2\n3\n");
}

fn a_guest_that_dies_says_so() {
    let kernel = kernel();
    let job = small("echo before the end >&2; echo c >/proc/sysrq-trigger; sleep 100");
    let error = format!("{:#}", job.run(&kernel).expect_err("it crashed"));
    assert!(error.contains("without an exit code") && error.contains("before the end"), "{error}");
    assert!(error.contains("sysrq triggered crash"), "{error}");
}

fn a_guest_that_does_not_end_says_what_it_waits_for() {
    let kernel = kernel();
    let mut job = small("echo so far; exec tail -f /job");
    job.patience = Duration::from_secs(45);
    let error = format!("{:#}", job.run(&kernel).expect_err("it never ends"));
    assert!(error.contains("had not ended after 45 s") && error.contains("so far"), "{error}");
    assert!(error.contains("task:tail") && error.contains("hrtimer_nanosleep"), "{error}");
}

fn a_guest_that_does_not_boot_is_booted_again_and_then_told_of() {
    let kernel = kernel();
    let mut job = small("");
    job.boot_patience = Duration::from_millis(300);
    let error = format!("{:#}", job.run(&kernel).expect_err("no guest is so fast"));
    assert!(error.contains("no guest has booted"), "{error}");
}
