//! Programs with one defect each: the first screen names it, with its line. `programs/nothing.c` has none, and is told to stay
//! as it is. A program's defect stands in the line with the comment "the defect". The programs of `strangers/` were written without knowledge of the
//! answer's rules; theirs is told by the text of its line.

mod stripped;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Lines and columns of a terminal.
const SCREEN: (usize, usize) = (24, 80);

/// A program, compiled and in a folder of its own.
struct Program {
    folder: TempDir,
    name: &'static str,
    source: String,
    /// What the line of the defect holds.
    mark: &'static str,
}

fn freehold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
    command
}

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Program {
    /// Compiles `programs/NAME`. None (said aloud) without a compiler for it.
    fn compile(name: &'static str) -> Option<Program> {
        Program::compile_as("programs", name, &["-O1", "-fno-builtin-malloc"], "the defect")
    }

    fn compile_as(
        of: &str,
        name: &'static str,
        flags: &[&str],
        mark: &'static str,
    ) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defects").join(of).join(name);
        let compiler = if name.ends_with(".c") { "cc" } else { "c++" };
        let mut command = Command::new(compiler);
        command.args(["-g", "-pthread"]).args(flags).arg("-o");
        let Ok(status) = command.arg(folder.path().join("program")).arg(&file).status() else {
            freehold_testkit::skip(&format!("no compiler named {compiler}"));
            return None;
        };
        assert!(status.success());
        let source = std::fs::read_to_string(file).unwrap();
        Some(Program { folder, name, source, mark })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As the answer must name it: file and line.
    fn defect(&self) -> String {
        let line = self.source.lines().position(|line| line.contains(self.mark)).unwrap();
        format!("{}:{}", self.name, line + 1)
    }

    /// Records it.
    fn record(&self) -> PathBuf {
        let (trace, program) = (self.path("t.fht"), self.path("program"));
        let recorded =
            freehold().arg("record").arg("-o").args([&trace]).arg("--").arg(&program).output();
        assert!(trace.exists(), "{}", String::from_utf8_lossy(&recorded.unwrap().stderr));
        trace
    }

    /// The first screen of `freehold info`.
    fn first_screen(&self) -> String {
        let trace = self.record();
        let page = succeeded(freehold().arg("info").arg(&trace).output().unwrap());
        let screen: Vec<&str> = page.lines().take(SCREEN.0).collect();
        let answer = screen.iter().skip(1).take_while(|line| !line.is_empty());
        answer.for_each(|line| assert!(line.chars().count() <= SCREEN.1, "{line}"));
        screen.join("\n")
    }
}

/// The advice of the first screen as one line.
fn advice(screen: &str) -> String {
    let (_, advice) =
        screen.split_once("What to do").unwrap_or_else(|| panic!("no advice:\n{screen}"));
    let lines = advice.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

/// The advice begins with `expected` and names the defect's line.
fn assert_named(name: &'static str, expected: &str) {
    let Some(program) = Program::compile(name) else { return };
    let screen = program.first_screen();
    let advice = advice(&screen);
    assert!(advice.starts_with(expected) && advice.contains(&program.defect()), "{screen}");
}

#[test]
fn a_leak() {
    assert_named("leak.c", "Free, or bound, what take_note");
}

#[test]
fn a_cache_without_a_limit() {
    assert_named("cache.cc", "Bound what render");
}

#[test]
fn temporaries_in_a_loop() {
    assert_named("temporaries.c", "Keep one buffer instead of a new one each time in checksum");
}

#[test]
fn a_vector_that_grows_by_one() {
    assert_named("vector.cc", "Reserve room, or double it, in add");
}

#[test]
fn blocks_freed_by_another_thread() {
    assert_named(
        "handed.c",
        "Give objects back to their thread, or hand over fewer, from make_message",
    );
}

#[test]
fn memory_of_threads_that_ended() {
    assert_named("threads.c", "Free at the thread's end what own_scratch");
}

#[test]
fn long_lived_blocks_that_hold_pages() {
    assert_named("pinned.c", "Allocate apart, in a region of its own, what open_session");
    let Some(program) = Program::compile("pinned.c") else { return };
    let page = succeeded(freehold().arg("info").arg(program.record()).output().unwrap());
    let (_, list) = page.split_once("Who keeps pages: ").unwrap_or_else(|| panic!("{page}"));
    assert!(list.lines().nth(1).unwrap().contains(&program.defect()), "{list}");
}

#[test]
fn mappings_that_are_never_unmapped() {
    assert_named("maps.c", "Unmap, or bound, what open_window");
}

#[test]
fn huge_pages_of_which_little_is_written() {
    let asked = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    if std::fs::read_to_string(asked).is_ok_and(|text| text.contains("[never]")) {
        return freehold_testkit::skip("this kernel makes no huge pages");
    }
    assert_named("huge.c", "Take small pages (MADV_NOHUGEPAGE) for what make_table");
}

#[test]
fn a_heap_of_its_own() {
    assert_named("interpreter.c", "Bound what begin_heap");
}

/// What the first screen says of a stranger's program; none (said aloud) without a compiler.
fn of_a_stranger(name: &'static str, mark: &'static str) -> Option<(String, Program)> {
    let program = Program::compile_as("strangers", name, &["-O2"], mark)?;
    Some((program.first_screen(), program))
}

#[test]
fn a_strangers_leak_on_a_path_of_errors() {
    let named = of_a_stranger("logindex.c", "e->body = malloc(");
    let Some((screen, program)) = named else { return };
    let advice = advice(&screen);
    assert!(advice.starts_with("Free, or bound, what entry_parse"), "{screen}");
    assert!(advice.contains(&program.defect()) && !advice.contains("posting_add"), "{screen}");
}

#[test]
fn a_strangers_buffers_of_ended_threads() {
    let named = of_a_stranger("chatsim.cpp", "window_(new char[kWindow])");
    let Some((screen, program)) = named else { return };
    let advice = advice(&screen);
    assert!(advice.starts_with("Bound what FrameDecoder"), "{screen}");
    assert!(advice.contains(&program.defect()) && !advice.contains("post ("), "{screen}");
}

#[test]
fn a_strangers_temporaries() {
    let named = of_a_stranger("tmplpages.cpp", "parts.push_back(path.substr(from, dot - from))");
    let Some((screen, program)) = named else { return };
    let advice = advice(&screen);
    let expected = "Keep one buffer instead of a new one each time in split_path";
    assert!(advice.starts_with(expected) && advice.contains(&program.defect()), "{screen}");
}

/// 512 bytes are reserved for each of 109,000 cells, which write twelve on average.
#[test]
fn a_strangers_room_that_is_not_used() {
    let named = of_a_stranger("sheetcalc.cpp", "feeds.reserve(128)");
    let Some((screen, program)) = named else { return };
    let (_, who) = screen.split_once("Who has it").unwrap();
    let first: Vec<&str> = who.split_whitespace().take(20).collect();
    let first = first.join(" ");
    assert!(first.starts_with("Cell (") && first.contains(&program.defect()), "{screen}");
    assert!(first.contains("53.3 MiB in 109 k blocks"), "{screen}");
    let advice = advice(&screen);
    let named = advice.starts_with("Reserve less, or later, in Cell");
    assert!(named && advice.contains(&program.defect()), "{screen}");
    let (_, unused) = advice.split_once("an estimated ").unwrap();
    let unused: f64 = unused.split(' ').next().unwrap().parse().unwrap();
    // Of eight lines of 64 bytes at most one is written, and at most one is not whole.
    assert!((40.0..=50.0).contains(&unused) && advice.contains(" MiB of its 53.3 MiB"), "{screen}");
}

#[test]
fn a_strangers_small_objects_that_hold_pages() {
    let named = of_a_stranger("arena2d.c", "s = must(malloc(sizeof *s))");
    let Some((screen, program)) = named else { return };
    let advice = advice(&screen);
    let expected = "Allocate apart, in a region of its own, what spawn_parse";
    assert!(advice.starts_with(expected) && advice.contains(&program.defect()), "{screen}");
    assert!(screen.contains("Of malloc's 10") && screen.contains("were in use"), "{screen}");
}

#[test]
fn nothing_is_wrong() {
    let Some(program) = Program::compile("nothing.c") else { return };
    let screen = program.first_screen();
    assert!(advice(&screen).starts_with("Keep what you have"), "{screen}");
}

/// A program that leaks, and itself before the leak came in.
#[test]
fn a_difference_names_the_function_that_grew() {
    let [Some(leak), Some(sound)] = ["leak.c", "nothing.c"].map(Program::compile) else { return };
    let (before, after) = (sound.record(), leak.record());
    let diff = |more: &[&str]| {
        succeeded(freehold().arg("diff").args([&before, &after]).args(more).output().unwrap())
    };
    let page = diff(&[]);
    let line =
        page.lines().find(|line| line.contains("take_note")).unwrap_or_else(|| panic!("{page}"));
    assert!(line.contains("+38.1 MiB") && line.contains(&leak.defect()), "{page}");
    let json: serde_json::Value = serde_json::from_str(&diff(&["--json"])).unwrap();
    assert_eq!(json["changes"][0]["after"]["leaked_bytes"], 40_000_000, "{json}");
    let same = succeeded(freehold().arg("diff").args([&after, &after]).output().unwrap());
    assert!(same.contains("No function changed"), "{same}");
    let profile = |recording: &PathBuf| {
        let profile = recording.with_extension("pb.gz");
        succeeded(
            freehold().arg("export").arg(recording).arg("-o").arg(&profile).output().unwrap(),
        );
        profile
    };
    let profiles = [profile(&before), profile(&after)];
    let page = succeeded(freehold().arg("diff").args(profiles).output().unwrap());
    let of = |line: &&str| line.contains("take_note") && line.contains("+38.1 MiB");
    assert!(page.lines().any(|line| of(&line)), "two profiles of pprof: {page}");
}

/// The report of `compare` opens with the same.
#[test]
fn the_report_names_the_defect_and_shows_the_stacks() {
    let Some(program) = Program::compile("leak.c") else { return };
    let mut compare = freehold();
    compare.current_dir(program.folder.path()).args(["compare", "--on", "good-fit", "--"]);
    succeeded(compare.arg(program.path("program")).output().unwrap());
    let page = std::fs::read_to_string(program.path("report.html")).unwrap();
    let answer = page.split("<section class=\"answer\"").nth(1).unwrap();
    let answer = answer.split("</section>").next().unwrap();
    assert!(
        answer.contains("<dt>What to do</dt><dd>Free, or bound, what <b>take_note (leak.c:"),
        "{answer}"
    );
    assert!(answer.contains(&program.defect()), "{answer}");
    assert!(page.contains("id=\"flame\"") && page.contains("id=\"moment\""));
    assert!(page.len() < 5 << 20, "{} bytes", page.len());
}

/// `docs/columns.md` names every column of an event and every field of a site and of what was in memory.
#[test]
fn the_page_of_columns_is_complete() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/columns.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words: Vec<&str> = page.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    for column in freehold_trace::export::row::COLUMNS.iter().chain(&["site"]) {
        assert!(words.contains(column), "{column}");
    }
    // Of an outcome every field has its row: that of a group, or its own.
    let outcome = serde_json::to_value(freehold_lab::results::Outcome::default()).unwrap();
    let (_, rows) = page.split_once("## A row an outcome").unwrap();
    for field in outcome.as_object().unwrap().keys() {
        let has = |row: &str| {
            let names = row.split('|').nth(1).unwrap_or("");
            names.split(',').any(|name| name.trim() == field)
        };
        assert!(rows.lines().any(has), "{field}");
    }
    let Some(program) = Program::compile("leak.c") else { return };
    let json =
        succeeded(freehold().args(["info", "--json"]).arg(program.record()).output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let of = |object: &serde_json::Value| object.as_object().unwrap().clone();
    let (site, there) = (of(&json["sites"]["sites"][0]), of(&json["there"]));
    let (malloc, group) = (of(&json["there"]["malloc"]), of(&json["there"]["groups"][0]));
    let outside = of(&json["sites"]["outside"][0]);
    let objects = [site, there, malloc, group, outside];
    let fields: Vec<String> = objects.iter().flat_map(|object| object.keys().cloned()).collect();
    assert!(fields.len() > 20, "{fields:?}");
    for field in fields {
        assert!(words.contains(&field.as_str()), "{field}");
    }
}
