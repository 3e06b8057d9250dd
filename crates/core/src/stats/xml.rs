//! The report as `malloc_info` writes it: glibc's elements where they mean something here (heaps,
//! sizes, totals, system), so that readers of glibc's find what they look for.

use super::{HeapReport, Out, Pen, Report};

pub fn write(report: &Report<'_>, out: &mut dyn Out) {
    let mut pen = Pen(out);
    pen.text(b"<malloc version=\"1\" allocator=\"freehold\">\n");
    let (mut committed, mut free) = (0, 0);
    for (number, heap) in (0..).zip(report.heaps) {
        committed += heap.census.committed;
        free += heap.census.free() + heap.census.cached() + heap.census.dirty;
        write_heap(&mut pen, number, heap);
    }
    pen.text(b"<total type=\"rest\" size=\"").number(free).text(b"\"/>\n");
    pen.text(b"<system type=\"current\" size=\"").number(committed).text(b"\"/>\n</malloc>\n");
}

fn write_heap(pen: &mut Pen<'_>, number: u64, heap: &HeapReport) {
    let census = &heap.census;
    pen.text(b"<heap nr=\"").number(number).text(b"\" name=\"").text(heap.name.as_bytes());
    pen.text(b"\">\n<sizes>\n");
    for (size, class) in census.used_classes() {
        let free = class.free + class.cached;
        pen.text(b"  <size from=\"").number(size as u64).text(b"\" to=\"").number(size as u64);
        pen.text(b"\" total=\"").number(free * size as u64).text(b"\" count=\"").number(free);
        pen.text(b"\" used=\"").number(class.in_use()).text(b"\"/>\n");
    }
    pen.text(b"</sizes>\n");
    let totals: [(&[u8], u64, u64); 3] = [
        (b"used", census.blocks(), census.in_use()),
        (b"large", census.large_blocks, census.large_bytes),
        (b"dirty", 0, census.dirty),
    ];
    for (kind, count, size) in totals {
        pen.text(b"<total type=\"").text(kind).text(b"\" count=\"").number(count);
        pen.text(b"\" size=\"").number(size).text(b"\"/>\n");
    }
    pen.text(b"<system type=\"current\" size=\"").number(census.committed).text(b"\"/>\n</heap>\n");
}
