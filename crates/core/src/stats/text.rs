//! The report for a terminal, at most 80 columns wide.

use super::{HeapReport, Out, Pen, Report, sum};

pub fn write(report: &Report<'_>, out: &mut dyn Out) {
    let mut pen = Pen(out);
    for heap in report.heaps {
        summary(&mut pen, report.pid, heap);
        table(&mut pen, heap);
    }
    if let Some(counts) = report.counts {
        pen.text(b"calls: ").number(sum(&counts.allocated)).text(b" blocks handed out (");
        pen.size(counts.bytes).text(b"), ").number(sum(&counts.freed)).text(b" taken back, ");
        pen.number(counts.resized).text(b" resized; peak ").size(counts.peak).text(b"\n");
    }
}

fn summary(pen: &mut Pen<'_>, pid: u32, heap: &HeapReport) {
    let census = &heap.census;
    pen.text(b"freehold ").number(pid as u64).text(b", heap ").text(heap.name.as_bytes());
    pen.text(b": ").size(census.in_use()).text(b" in ").number(census.blocks());
    pen.text(b" blocks");
    if heap.limit != 0 {
        pen.text(b" of at most ").size(heap.limit);
    }
    pen.text(b"\n  free: ").size(census.cached()).text(b" in the caches of ");
    pen.number(census.caches).text(b" threads, ").size(census.free()).text(b" in slabs (");
    pen.size(census.purged).text(b" given back)\n  held: ").size(census.held);
    pen.text(b", and ").size(census.dirty).text(b" free to be given back; committed ");
    pen.size(census.committed).text(b"\n");
}

fn table(pen: &mut Pen<'_>, heap: &HeapReport) {
    const HEADS: [&[u8]; 6] = [b"size", b"slabs", b"in use", b"cached", b"free", b"in use, B"];
    let widths = [9, 9, 11, 9, 11, 15];
    if heap.census.blocks() == 0 {
        return;
    }
    for (head, width) in HEADS.into_iter().zip(widths) {
        pen.pad(width, head);
    }
    pen.text(b"\n");
    for (size, class) in heap.census.used_classes() {
        let in_use = class.in_use();
        let row =
            [size as u64, class.slabs, in_use, class.cached, class.free, in_use * size as u64];
        for (value, width) in row.into_iter().zip(widths) {
            pen.column(value, width);
        }
        pen.text(b"\n");
    }
    if heap.census.large_blocks != 0 {
        pen.pad(9, b"large").pad(9, b"").column(heap.census.large_blocks, 11);
        pen.pad(20, b"").column(heap.census.large_bytes, 15).text(b"\n");
    }
}
