//! With transparent huge pages set to `always`, what was purged stays purged.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod support;

use freehold_guest::{Bytes, Machine};
use support::{job, run};

freehold_testkit::trials!(what_was_purged_stays_purged);

fn what_was_purged_stays_purged() {
    let script =
        "cd /sys/kernel/mm/transparent_hugepage && echo always >enabled && echo always >defrag
        echo 50 >khugepaged/scan_sleep_millisecs && echo 65536 >khugepaged/pages_to_scan
        LD_PRELOAD=/libfreehold.so /purged";
    let machine = Machine::even(1, 2, Bytes(1 << 30)).expect("a machine");
    let done = run(&job(machine, "purged", script));
    println!("{}", done.stdout);
    let numbers: Vec<u64> =
        done.stdout.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [full, rested, later, rounds] = numbers[..] else { panic!("{}", done.stdout) };
    freehold_testkit::figures::keep(&format!(
        r#"{{"kind":"purged","full":{full},"rested":{rested},"later":{later},"khugepaged_rounds":{rounds}}}"#
    ));
    assert!(rounds >= 2, "khugepaged must have looked at everything: {rounds} rounds");
    assert!(rested < full * 3 / 4, "{full} bytes when full, {rested} after a rest");
    assert!(later <= rested + rested / 50, "{rested} bytes after a rest, {later} later");
}
