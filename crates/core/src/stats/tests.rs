//! The formats, literally.

extern crate std;

use super::*;
use crate::malloc::census::ClassCensus;

fn heap() -> HeapReport {
    let mut census = Census { committed: 4 << 20, held: 192 << 10, ..Census::default() };
    census.classes[1] = ClassCensus { slabs: 1, blocks: 2048, free: 2000, cached: 8 };
    (census.large_blocks, census.large_bytes, census.large_held) = (1, 100 << 10, 128 << 10);
    (census.caches, census.dirty, census.purged) = (2, 65536, 4096);
    HeapReport { name: Name::new(b"ma\"in"), limit: 2 << 30, census }
}

fn written(format: Format, counts: Option<&Counts>) -> std::string::String {
    let heaps = [heap()];
    let mut bytes = std::vec::Vec::new();
    let report = Report { pid: 7, heaps: &heaps, counts };
    report.write(format, &mut |part: &[u8]| bytes.extend_from_slice(part));
    std::string::String::from_utf8(bytes).expect("ASCII")
}

#[test]
fn text_is_a_summary_and_a_table() {
    let expected = "\
freehold 7, heap ma_in: 101.2 KiB in 41 blocks of at most 2.0 GiB
  free: 256 B in the caches of 2 threads, 62.5 KiB in slabs (4.0 KiB given back)
  held: 192.0 KiB, and 64.0 KiB free to be given back; committed 4.0 MiB
     size    slabs     in use   cached       free      in use, B
       32        1         40        8       2000           1280
    large                   1                             102400
calls: 3 blocks handed out (96 B), 2 taken back, 1 resized; peak 64 B
";
    let mut counts = Counts { resized: 1, bytes: 96, live: 32, peak: 64, ..Counts::default() };
    (counts.allocated[1], counts.freed[1]) = (3, 2);
    assert_eq!(written(Format::Text, Some(&counts)), expected);
}

#[test]
fn json_has_schema_1() {
    let expected = concat!(
        r#"{"schema":1,"pid":7,"heaps":[{"name":"ma_in","in_use":103680,"cached":256,"#,
        r#""free":64000,"purged":4096,"large":102400,"held":196608,"dirty":65536,"#,
        r#""committed":4194304,"limit":2147483648,"blocks":41,"caches":2,"caches_idle":0,"#,
        r#""large_blocks":1,"classes":[{"size":32,"slabs":1,"blocks":2048,"in_use":40,"#,
        r#""cached":8,"free":2000}]}],"counts":null}"#,
        "\n"
    );
    assert_eq!(written(Format::Json, None), expected);
    let mut counts = Counts::default();
    counts.allocated[CLASSES] = 2;
    let json = written(Format::Json, Some(&counts));
    assert!(json.contains(r#""classes":[{"size":null,"allocated":2,"freed":0}]}}"#), "{json}");
}

#[test]
fn metrics_name_every_family_once_and_end() {
    let text = written(Format::OpenMetrics, Some(&Counts::default()));
    let families: std::vec::Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut sorted = families.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), families.len(), "a family twice");
    assert!(text.contains("freehold_in_use_bytes{heap=\"ma_in\"} 103680\n"), "{text}");
    assert!(text.contains("freehold_class_free_blocks{heap=\"ma_in\",size=\"32\"} 2000\n"));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn xml_has_glibcs_elements() {
    let text = written(Format::Xml, None);
    assert!(text.starts_with("<malloc version=\"1\""));
    for element in [
        "<size from=\"32\" to=\"32\" total=\"64256\" count=\"2008\" used=\"40\"/>",
        "<system type=\"current\" size=\"4194304\"/>",
        "<total type=\"rest\" size=\"129792\"/>",
    ] {
        assert!(text.contains(element), "{element} is missing:\n{text}");
    }
}

#[test]
fn numbers_have_all_their_digits() {
    for value in [0, 7, 10, 999, u64::MAX] {
        assert_eq!(Decimal::new(value).as_bytes(), std::format!("{value}").as_bytes());
    }
}
