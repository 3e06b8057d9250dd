//! The pages that the command writes, in a real browser: no console message, no request, no sideways scrolling on
//! a phone, what became of a claim in sight without scrolling its table, readable in both colour schemes, what to do on the first screen. Ignored, and counted so, where there is no Chromium.

mod watch;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use watch::{Seen, browser, look};

/// The width of a phone, and of a desk with the height of its screen.
const PHONE: u32 = 360;
const DESK: (u32, u32) = (1280, 800);

/// How much a page must show: pixels of height, drawings, verdicts.
struct Full {
    tall: u32,
    drawn: u32,
    verdicts: u32,
}

/// Makes a page by the command (every word of `words` is one, `@` its folder), and looks at it on a phone and on a
/// desk, in light and dark. What was seen at last; none without a browser.
fn is_sound(words: &[&str], page: &str, full: &Full) -> Option<Seen> {
    let browser = browser()?;
    let folder = tempfile::tempdir().unwrap();
    freehold(folder.path(), words);
    let made = folder.path().join(page);
    std::fs::rename(&made, folder.path().join("page.html")).unwrap();
    let (mut grounds, mut last) = (Vec::new(), None);
    for (width, dark) in [(PHONE, false), (PHONE, true), (DESK.0, true), (DESK.0, false)] {
        let seen = look(&browser, folder.path(), width, dark);
        assert!(seen.console.is_empty(), "the console says {:?}", seen.console);
        assert!(seen.requests.is_empty(), "the page asks for {:?}", seen.requests);
        assert_eq!(seen.width, width, "the frame is as wide as meant");
        assert!(seen.needs <= width, "at {width} px the page needs {} px", seen.needs);
        let is_full =
            seen.tall > full.tall && seen.drawn >= full.drawn && seen.verdicts >= full.verdicts;
        assert!(is_full, "something is missing: {seen:?}");
        assert!(
            seen.farthest <= f64::from(width),
            "at {width} px a verdict ends at {}",
            seen.farthest
        );
        assert!(seen.contrast >= 4.5, "contrast {} of {}", seen.contrast, seen.faintest);
        assert!(seen.least >= 12.0, "text of {} px", seen.least);
        let is_in_sight = seen.third_ends <= f64::from(width);
        assert!(is_in_sight, "at {width} px the peak memory ends at {}", seen.third_ends);
        grounds.push(seen.page.clone());
        last = Some(seen);
    }
    assert_ne!(grounds[0], grounds[1], "dark is not light");
    assert_eq!([&grounds[0], &grounds[1]], [&grounds[3], &grounds[2]]);
    last
}

/// What to do is said on the first screen of a desk.
fn assert_first_screen(seen: &Seen) {
    assert!(!seen.todo.is_empty(), "nothing is to be done: {seen:?}");
    let most = f64::from(DESK.1);
    assert!(seen.todo_ends <= most, "{:?} ends at {} px", seen.todo, seen.todo_ends);
}

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.current_dir(folder).stdin(Stdio::null()).args(words).output().unwrap()
}

fn freehold(folder: &Path, words: &[&str]) {
    let output = run(folder, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A study, as small as it can be, with its words separated by blanks.
fn study(words: &str, full: &Full) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = [&["study"], &words[..], &["--out", "made"]].concat();
    is_sound(&words, "made/report.html", full);
}

/// A program of many small allocations, whose arguments no page may take for its own.
fn a_comparison() {
    let on = "glibc,first-fit,best-fit,good-fit,dmrt";
    let program = "for n in $(seq 3000); do x=\"$x$n\"; done";
    let words =
        ["compare", "-o", "made.html", "--on", on, "--", "sh", "-c", program, "<room & box>"];
    let full = Full { tall: 3000, drawn: 6, verdicts: 0 };
    let Some(seen) = is_sound(&words, "made.html", &full) else { return };
    assert_first_screen(&seen);
    assert!(seen.third_ends > 0.0, "the table of allocators is there");
    let [stops, all, first, up, again, inside, out] = seen.keys.as_slice() else {
        panic!("{seen:?}")
    };
    assert_eq!((stops.as_str(), all.as_str()), ("1", "all at the peak"), "tab stops once");
    assert_ne!(first, all, "down leads to a function");
    assert_eq!((up, again, inside, out), (all, first, first, all), "up, down, into it, out");
}

/// A program with a defect: its line stands on the first screen, and the many policies can be laid over one another.
fn a_defect() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defects/programs/leak.c");
    let program = folder.path().join("program");
    let built = Command::new("cc").arg("-g").arg("-o").args([&program, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return freehold_testkit::skip("there is no C compiler `cc`");
    }
    let lines = std::fs::read_to_string(source).unwrap();
    let line = lines.lines().position(|line| line.contains("the defect")).unwrap() + 1;
    let words = ["compare", "-o", "made.html", "--on", "glibc,policies", "--"];
    let full = Full { tall: 3000, drawn: 6, verdicts: 0 };
    let words = [&words[..], &[program.to_str().unwrap()]].concat();
    let Some(seen) = is_sound(&words, "made.html", &full) else { return };
    assert_first_screen(&seen);
    assert!(seen.todo.contains(&format!("leak.c:{line}")), "{}", seen.todo);
}

fn study_dmrt() {
    study(
        "dmrt --quick --set attempts=2 --set requests=[100]",
        &Full { tall: 3000, drawn: 6, verdicts: 6 },
    );
}

fn study_banks() {
    let machine = "--set machines.m32.memory_mib=256 --set machines.m32.bank_mib=4 --set machines.m4.memory_mib=512";
    let work = "--set workloads.light.seconds=60 --set workloads.medium.seconds=60 --set workloads.storms.seconds=60";
    let streams = "--set streams.seconds.seconds=60 --set streams.minutes.seconds=60 --set streams.hours.seconds=60";
    let words =
        format!("banks --quick --no-times {machine} {work} {streams} --set policies=fullest");
    study(&words, &Full { tall: 3000, drawn: 3, verdicts: 40 });
}

fn study_mesh() {
    study("mesh --quick", &Full { tall: 3000, drawn: 6, verdicts: 20 });
}

fn study_threads() {
    let threads = "--set threads.counts=[1,2] --set threads.iterations=1 --set threads.steady_ms=1";
    let counts = "--set iterations.counts=1 --set allocations.counts=100 --set wish.sequences=100 --set calls.sequences=100";
    // However slow the machine: nothing is left out for its time.
    let limits = "--set cell_ms=600000 --set limit_ms=600000";
    let words =
        format!("threads --quick --set runs=1 --set on.fits=best-fit {limits} {threads} {counts}");
    study(&words, &Full { tall: 3000, drawn: 5, verdicts: 9 });
}

/// Two programs that are everywhere, recorded.
const PROGRAMS: &str = r#"
policies = ["dmrt", "tlsf", "best-fit"]
target = { of = "dmrt", at_most = "tlsf" }
[[trace]]
name = "list"
about = "lists a folder <&>"
needs = ["ls"]
command = ["ls", "-lR", "/etc"]
[[trace]]
name = "none"
about = "is not there"
needs = ["no-such-program-anywhere"]
command = ["no-such-program-anywhere"]
"#;

fn study_fragmentation() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    std::fs::write(&mine, PROGRAMS).unwrap();
    study(&format!("fragmentation {}", mine.display()), &Full { tall: 500, drawn: 0, verdicts: 2 });
}

/// What a shell allocates, recorded, in place of the program that the study would record.
fn on_a_trace(words: &str, full: &Full) {
    let folder = tempfile::tempdir().unwrap();
    let program = "for n in $(seq 3000); do x=\"$x$n\"; done";
    freehold(folder.path(), &["record", "-q", "-o", "shell.fht", "--", "sh", "-c", program]);
    study(&format!("{words} --trace {}", folder.path().join("shell.fht").display()), full);
}

/// Without the shared heaps: a debug build checks every block of theirs, for minutes.
fn study_radiosity() {
    let words =
        "radiosity --threads 1 --rounds 1 --on glibc,first-fit,dmrt --no-schemes --scale 1e-3";
    on_a_trace(words, &Full { tall: 1000, drawn: 1, verdicts: 4 });
}

/// Of a small scene's only iteration.
fn study_tlb() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        ["workload", "radiosity", "--scene", "cornell", "--threads", "1", "--iterations", "1"];
    let words = ["record", "-q", "-o", "scene.fht", "--", env!("CARGO_BIN_EXE_freehold")];
    // It ends with 1, for the scene is not lit after one iteration; what was recorded is told by the study.
    run(folder.path(), &[&words[..], &program, &["--accesses", "1"]].concat());
    let trace = folder.path().join("scene.fht");
    study(
        &format!("tlb --on first-fit,dmrt --trace {}", trace.display()),
        &Full { tall: 1000, drawn: 1, verdicts: 4 },
    );
}

freehold_testkit::trials! {
    a_comparison,
    a_defect,
    study_dmrt,
    study_banks,
    study_mesh,
    study_threads,
    study_fragmentation,
    study_radiosity,
    study_tlb,
}
