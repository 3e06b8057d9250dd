//! The report as JSON, schema 1. Numbers are bytes unless their name says blocks, slabs or caches.

use super::{GAUGES, HeapReport, Out, Pen, Report};
use crate::size_class::{CLASSES, SizeClass};

pub fn write(report: &Report<'_>, out: &mut dyn Out) {
    let mut pen = Pen(out);
    pen.text(b"{\"schema\":1,\"pid\":").number(report.pid as u64).text(b",\"heaps\":[");
    for (at, heap) in report.heaps.iter().enumerate() {
        pen.text(if at == 0 { b"" } else { b"," });
        write_heap(&mut pen, heap);
    }
    pen.text(b"],\"counts\":");
    match report.counts {
        None => {
            pen.text(b"null");
        }
        Some(counts) => {
            pen.text(b"{\"resized\":").number(counts.resized);
            pen.text(b",\"bytes\":").number(counts.bytes).text(b",\"live\":").number(counts.live);
            pen.text(b",\"peak\":").number(counts.peak).text(b",\"classes\":[");
            write_counts(&mut pen, &counts.allocated, &counts.freed);
            pen.text(b"]}");
        }
    }
    pen.text(b"}\n");
}

fn write_heap(pen: &mut Pen<'_>, heap: &HeapReport) {
    let census = &heap.census;
    pen.text(b"{\"name\":\"").text(heap.name.as_bytes()).text(b"\"");
    for gauge in &GAUGES {
        pen.text(b",\"").text(gauge.name).text(b"\":").number((gauge.of)(heap));
    }
    pen.text(b",\"blocks\":").number(census.blocks());
    pen.text(b",\"caches\":").number(census.caches);
    pen.text(b",\"caches_idle\":").number(census.caches_idle);
    pen.text(b",\"large_blocks\":").number(census.large_blocks).text(b",\"classes\":[");
    for (at, (size, class)) in census.used_classes().enumerate() {
        pen.text(if at == 0 { b"{\"size\":" } else { b",{\"size\":" }).number(size as u64);
        pen.text(b",\"slabs\":").number(class.slabs).text(b",\"blocks\":").number(class.blocks);
        pen.text(b",\"in_use\":").number(class.in_use()).text(b",\"cached\":").number(class.cached);
        pen.text(b",\"free\":").number(class.free).text(b"}");
    }
    pen.text(b"]}");
}

/// Classes that were used; a size of null is everything above the largest.
fn write_counts(pen: &mut Pen<'_>, allocated: &[u64; CLASSES + 1], freed: &[u64; CLASSES + 1]) {
    let sizes = SizeClass::all().map(|class| Some(class.size())).chain([None]);
    let mut first = true;
    for (size, (&allocated, &freed)) in sizes.zip(allocated.iter().zip(freed)) {
        if allocated | freed == 0 {
            continue;
        }
        pen.text(if first { b"{\"size\":" } else { b",{\"size\":" });
        first = false;
        match size {
            Some(size) => pen.number(size as u64),
            None => pen.text(b"null"),
        };
        pen.text(b",\"allocated\":").number(allocated).text(b",\"freed\":").number(freed);
        pen.text(b"}");
    }
}
