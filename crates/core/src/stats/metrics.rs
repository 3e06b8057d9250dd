//! The report as OpenMetrics 1.0 (RFC draft of 2020): every family once, every heap a label.

use super::{GAUGES, HeapReport, Out, Pen, Report, sum};
use crate::malloc::census::ClassCensus;

/// A family by size class.
type ByClass = (&'static [u8], &'static [u8], fn(&ClassCensus) -> u64);

const BY_CLASS: [ByClass; 4] = [
    (b"freehold_class_slabs", b"Slabs of a size class.", |class| class.slabs),
    (b"freehold_class_in_use_blocks", b"Blocks that the program has.", ClassCensus::in_use),
    (b"freehold_class_cached_blocks", b"Free blocks in caches.", |class| class.cached),
    (b"freehold_class_free_blocks", b"Free blocks of slabs.", |class| class.free),
];

pub fn write(report: &Report<'_>, out: &mut dyn Out) {
    let mut pen = Pen(out);
    for gauge in &GAUGES {
        pen.text(b"# TYPE freehold_").text(gauge.name).text(b"_bytes gauge\n# UNIT freehold_");
        pen.text(gauge.name).text(b"_bytes bytes\n# HELP freehold_").text(gauge.name);
        pen.text(b"_bytes ").text(gauge.help).text(b"\n");
        for heap in report.heaps {
            pen.text(b"freehold_").text(gauge.name).text(b"_bytes");
            label(&mut pen, heap).text(b"} ").number((gauge.of)(heap)).text(b"\n");
        }
    }
    pen.text(b"# TYPE freehold_caches gauge\n# HELP freehold_caches Threads that allocated.\n");
    for heap in report.heaps {
        pen.text(b"freehold_caches");
        label(&mut pen, heap).text(b"} ").number(heap.census.caches).text(b"\n");
    }
    for (name, help, of) in BY_CLASS {
        pen.text(b"# TYPE ").text(name).text(b" gauge\n# HELP ").text(name).text(b" ").text(help);
        pen.text(b"\n");
        for heap in report.heaps {
            for (size, class) in heap.census.used_classes() {
                pen.text(name);
                label(&mut pen, heap).text(b",size=\"").number(size as u64).text(b"\"} ");
                pen.number(of(class)).text(b"\n");
            }
        }
    }
    counts(&mut pen, report);
    pen.text(b"# EOF\n");
}

fn label<'a, 'b>(pen: &'a mut Pen<'b>, heap: &HeapReport) -> &'a mut Pen<'b> {
    pen.text(b"{heap=\"").text(heap.name.as_bytes()).text(b"\"")
}

fn counts(pen: &mut Pen<'_>, report: &Report<'_>) {
    let Some(counts) = report.counts else { return };
    let counters: [(&[u8], u64); 4] = [
        (b"freehold_allocated_blocks", sum(&counts.allocated)),
        (b"freehold_freed_blocks", sum(&counts.freed)),
        (b"freehold_resized_blocks", counts.resized),
        (b"freehold_allocated_bytes", counts.bytes),
    ];
    for (name, value) in counters {
        pen.text(b"# TYPE ").text(name).text(b" counter\n").text(name).text(b"_total ");
        pen.number(value).text(b"\n");
    }
    for (name, value) in
        [(b"freehold_live_bytes", counts.live), (b"freehold_peak_bytes", counts.peak)]
    {
        pen.text(b"# TYPE ").text(name).text(b" gauge\n").text(name).text(b" ");
        pen.number(value).text(b"\n");
    }
}
