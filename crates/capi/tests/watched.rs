//! libfreehold.so under watch: statistics, exact counts, profiles, hardening; and heaps of one's own.
//!
//! The programs of `programs/` run as anybody's would, with the library preloaded and options set.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::fs;
use std::path::PathBuf;
use support::{assert_passed, compile, folder, library, pprof, run, unnoticed};

/// A file for one test alone.
fn file(name: &str) -> PathBuf {
    let path = folder().join(format!("{}-{name}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

fn text(path: &PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The number behind `"name":` in JSON that we wrote.
fn number(json: &str, name: &str) -> u64 {
    let at = json.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} in {json}"));
    let digits = json[at + name.len() + 3..].chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap_or_else(|_| panic!("{name} in {json}"))
}

/// Compiles a program that calls what is Freehold's own, and links it to the library.
fn compile_linked(source: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    support::compile_with(&path, &[library().as_os_str()])
}

fn heaps_of_ones_own() {
    let program = compile_linked("heaps.c");
    assert_passed("heaps.c", &run(&program, &[], &[]));
}

fn every_program_runs_hardened_counted_and_sampled() {
    let profile = file("all.pb");
    let profile = profile.to_str().expect("a path of ours");
    for source in ["standards.c", "operators.cpp", "threads.c", "forks.c"] {
        let program = compile(source);
        let options = [
            ("FREEHOLD_SECURE", "1"),
            ("FREEHOLD_STATS", "on"),
            ("FREEHOLD_PROFILE", profile),
            ("FREEHOLD_PROFILE_RATE", "16K"),
        ];
        assert_passed(source, &run(&program, &[], &options));
    }
}

fn hardened_frees_notice_at_once() {
    let program = compile("written.c");
    let secure = [("FREEHOLD_SECURE", "1")];
    let wrong: Vec<String> = [
        ("after-free", "written to after it was freed"),
        ("mark", "written to after it was freed"),
        ("interior", "not a block"),
        ("late-double", "double free"),
        ("late-double-written", "double free"),
        ("canary", "written to behind its end"),
        ("list", "led to what is no free block"),
    ]
    .iter()
    .filter_map(|(kind, message)| unnoticed(&program, kind, message, &secure))
    .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let output = run(&program, &["behind-large"], &secure);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "so far\n", "the fence stands too early");
    assert!(!output.status.success(), "there is no fence");
    for kind in ["reuse", "zero"] {
        assert_passed(kind, &run(&program, &[kind], &secure));
    }
}

fn counts_are_exact() {
    let (plain, counted) = (file("plain.json"), file("counted.json"));
    let program = compile_linked("sites.c");
    for (path, stats) in [(&plain, "off"), (&counted, "on")] {
        let report = path.to_str().expect("a path of ours");
        let options = [("FREEHOLD_REPORT", report), ("FREEHOLD_STATS", stats)];
        assert_passed("sites.c", &run(&program, &[], &options));
    }
    let (plain, counted) = (text(&plain), text(&counted));
    assert!(plain.ends_with("\"counts\":null}\n"), "{plain}");
    // 100,000 of 200 bytes (class 208) and 400 of 50,000 (class 65536); half of the small ones were freed.
    assert!(counted.contains("{\"size\":208,\"allocated\":100000,\"freed\":50000}"), "{counted}");
    assert!(counted.contains("{\"size\":65536,\"allocated\":400,\"freed\":400}"), "{counted}");
    assert!(number(&counted, "peak") >= 100_000 * 208, "{counted}");
    // The census, which nobody pays for, agrees.
    for report in [&plain, &counted] {
        let class = &report[report.find("{\"size\":208,\"slabs\"").expect("the class is there")..];
        assert_eq!(number(class, "in_use"), 50_000, "{report}");
    }
}

fn reports_have_the_format_of_their_name() {
    let program = compile_linked("sites.c");
    for (name, start) in [
        ("r.json", "{\"schema\":1,"),
        ("r.xml", "<malloc version=\"1\""),
        ("r.om", "# TYPE freehold_in_use_bytes gauge"),
        ("r.txt", "freehold "),
    ] {
        let path = file(name);
        let report = path.to_str().expect("a path of ours");
        assert_passed("sites.c", &run(&program, &[], &[("FREEHOLD_REPORT", report)]));
        assert!(text(&path).starts_with(start), "{name}");
    }
    let output = run(&program, &[], &[("FREEHOLD_REPORT", "/proc/no/such/folder")]);
    assert_passed("a report that cannot be written", &output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("FREEHOLD_REPORT cannot be written: /proc/no/such/folder\n"), "{said}");
}

/// As root, `FREEHOLD_REPORT=/dev/stderr` or `/dev/null` put a file in the place of the device.
fn a_report_does_not_replace_what_is_no_file() {
    use std::io::Read;
    use std::os::unix::fs::FileTypeExt;
    let program = compile_linked("sites.c");
    let pipe = file("pipe.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("every system has mkfifo").success());
    // Both ways, so that neither end waits for the other.
    let mut reader =
        fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("our own pipe");
    let name = pipe.to_str().expect("a path of ours");
    assert_passed("sites.c", &run(&program, &[], &[("FREEHOLD_REPORT", name)]));
    assert!(pipe.metadata().expect("it is there").file_type().is_fifo(), "a pipe as before");
    let mut begin = [0; 12];
    reader.read_exact(&mut begin).expect("what was written");
    assert_eq!(&begin, b"{\"schema\":1,");
    drop(reader);
    // Without a reader it is refused, and the program ends.
    let output = run(&program, &[], &[("FREEHOLD_REPORT", name)]);
    assert_passed("a pipe without a reader", &output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
    let beside = PathBuf::from(format!("{name}.part"));
    assert!(!beside.exists(), "nothing is left beside it");
}

fn profiles_are_unbiased() {
    let program = compile_linked("sites.c");
    // 58 MB at a sample in 4 KiB: about 14,000 samples, hence within a few per cent.
    let path = file("sites.pb");
    let options = [
        ("FREEHOLD_PROFILE", path.to_str().expect("a path of ours")),
        ("FREEHOLD_PROFILE_RATE", "4K"),
    ];
    assert_passed("sites.c", &run(&program, &[], &options));
    let [objects, bytes, live, live_bytes] = pprof::sum(&fs::read(&path).expect("written at exit"));
    let near = |what, value: i64, expected: f64, tolerance: f64| {
        let ratio = value as f64 / expected;
        assert!((ratio - 1.0).abs() < tolerance, "{what}: {value}, {ratio} of what it should be");
    };
    near("objects ever", objects, 160_400.0, 0.12);
    near("bytes ever", bytes, 58e6, 0.1);
    near("objects alive", live, 50_000.0, 0.2);
    near("bytes alive", live_bytes, 10e6, 0.2);
}

fn a_profile_can_be_had_at_any_time_and_only_if_it_was_asked_for() {
    let program = compile_linked("sites.c");
    let (now, end) = (file("now.pb"), file("end.pb"));
    let (now, end) = (now.to_str().expect("ours"), end.to_str().expect("ours"));
    assert!(!run(&program, &[now], &[]).status.success());
    assert_passed("sites.c", &run(&program, &[now], &[("FREEHOLD_PROFILE", end)]));
    assert!(fs::metadata(now).expect("written").len() > 500);
}

freehold_testkit::trials! {
    heaps_of_ones_own,
    every_program_runs_hardened_counted_and_sampled,
    hardened_frees_notice_at_once,
    counts_are_exact,
    reports_have_the_format_of_their_name,
    a_report_does_not_replace_what_is_no_file,
    profiles_are_unbiased,
    a_profile_can_be_had_at_any_time_and_only_if_it_was_asked_for,
}
