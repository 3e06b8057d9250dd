//! Any bytes as a heaptrack or mtrace file, a workload or a profile; what is imported must be a sound trace.

#![no_main]

use freehold_trace::Trace;
use freehold_trace::export::Control;
use freehold_trace::import::{Source, import};
use libfuzzer_sys::fuzz_target;
use std::sync::atomic::{AtomicBool, Ordering};

fuzz_target!(|data: &[u8]| {
    // The first byte chooses the format.
    let Some((choice, data)) = data.split_first() else { return };
    let format = match choice % 5 {
        0 => None,
        1 => Some(Source::Heaptrack),
        2 => Some(Source::Mtrace),
        3 => Some(Source::Pprof),
        _ => Some(Source::Workload),
    };
    let name = |end: &str| {
        std::env::temp_dir().join(format!("freehold-fuzz-import-{}{end}", std::process::id()))
    };
    let (from, to) = (name(""), name(".fht"));
    std::fs::write(&from, data).expect("the temporary folder takes a small file");
    let stop = AtomicBool::new(false);
    // A few bytes of a profile may tell of millions of objects.
    let mut told = 0;
    let mut progress = |_, _| {
        told += 1;
        stop.store(told > 4, Ordering::Relaxed);
    };
    let mut control = Control { progress: &mut progress, stop: &stop };
    let Ok(imported) = import(&from, &to, format, &mut control) else { return };
    let trace = Trace::open(&to).expect("what was imported can be opened");
    assert!(trace.damage().is_empty());
    let mut events = 0;
    let mut records = trace.records().expect("what was imported can be read");
    records.for_each(|_| events += 1).expect("what was imported can be read");
    assert_eq!(events, imported.summary.events);
    assert!(records.damage().is_empty());
});
