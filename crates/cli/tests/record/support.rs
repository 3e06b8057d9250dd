//! Compiles a program, records it, and reads the trace.

use freehold_trace::{Event, FrameId, ProcessId, Record, Request, Stacks, Trace};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with a program in it.
pub struct Bench {
    pub folder: TempDir,
    pub program: PathBuf,
}

impl Bench {
    /// Compiles C. Calls of malloc stay as they are written.
    pub fn c(source: &str) -> Bench {
        Bench::compile("cc", "program.c", source, &["-std=gnu11"]).expect("a C compiler is there")
    }

    /// Compiles C++; none (said aloud) where there is no compiler for it.
    pub fn cxx(source: &str) -> Option<Bench> {
        let bench = Bench::compile("c++", "program.cc", source, &["-std=c++17"]);
        if bench.is_none() {
            freehold_testkit::skip("no C++ compiler named c++ (apt install g++)");
        }
        bench
    }

    /// Compiles C as distributions do: optimised, without frame pointers; and with more flags.
    pub fn optimised(source: &str, flags: &[&str]) -> Bench {
        let flags: Vec<&str> =
            ["-std=gnu11", "-O2", "-fomit-frame-pointer"].iter().chain(flags).copied().collect();
        Bench::compile("cc", "program.c", source, &flags).expect("a C compiler is there")
    }

    /// The same in C++.
    pub fn optimised_cxx(source: &str) -> Option<Bench> {
        let bench = Bench::compile(
            "c++",
            "program.cc",
            source,
            &["-std=c++17", "-O2", "-fomit-frame-pointer"],
        );
        if bench.is_none() {
            freehold_testkit::skip("no C++ compiler named c++ (apt install g++)");
        }
        bench
    }

    /// Records the program with call stacks of all events, each compared with a plain walk.
    pub fn record_checked(&self, arguments: &[&str]) -> Recorded {
        let mut command = freehold();
        command.args(["record", "--json", "--stacks", "all", "--check-stacks", "-o"]);
        command.arg(self.trace_path()).arg("--").arg(&self.program).args(arguments);
        self.recorded(command.output().unwrap())
    }

    fn compile(compiler: &str, name: &str, source: &str, flags: &[&str]) -> Option<Bench> {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join(name), folder.path().join("program"));
        std::fs::write(&file, source).unwrap();
        let output = Command::new(compiler)
            .args(["-O1", "-fno-builtin", "-pthread", "-w"])
            .args(flags)
            .arg("-o")
            .args([&program, &file])
            .output()
            .ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Bench { folder, program })
    }

    /// An empty folder, for programs that are there.
    pub fn empty() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap(), program: PathBuf::from("/bin/true") }
    }

    pub fn trace_path(&self) -> PathBuf {
        self.folder.path().join("t.fht")
    }

    /// `freehold record` of the program with these arguments, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = freehold();
        command.args(["record", "--json", "-o"]).arg(self.trace_path()).arg("--");
        command.arg(&self.program).args(arguments);
        command
    }

    /// Records the program.
    pub fn record(&self, arguments: &[&str]) -> Recorded {
        let output = self.command(arguments).output().unwrap();
        self.recorded(output)
    }

    pub fn recorded(&self, output: Output) -> Recorded {
        let trace = self.trace_path();
        let trace = trace.exists().then(|| Seen::read(&trace));
        Recorded { output, trace }
    }
}

/// The command under test, its standard streams apart from ours.
pub fn freehold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
    command
}

/// What the command did.
pub struct Recorded {
    pub output: Output,
    trace: Option<Seen>,
}

impl Recorded {
    pub fn status(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The trace, which must be there.
    pub fn seen(&self) -> &Seen {
        self.trace.as_ref().unwrap_or_else(|| panic!("no trace: {}", self.stderr()))
    }

    /// A number of the JSON summary.
    pub fn summary(&self, name: &str) -> serde_json::Value {
        let stderr = self.stderr();
        let line = stderr.lines().find(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("no summary: {stderr}"));
        serde_json::from_str::<serde_json::Value>(line).unwrap()[name].clone()
    }

    /// How many stacks were compared with plain walks; all of them were the same.
    pub fn compared(&self) -> u64 {
        let notes = self.summary("notes").to_string();
        let (before, after) = notes
            .split_once(" call stacks were compared with plain walks; ")
            .unwrap_or_else(|| panic!("no stack was compared: {notes}"));
        assert!(after.starts_with("0 were not the same"), "{notes}");
        let digits = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        before[digits..].parse().unwrap()
    }

    /// The program succeeded, everything was recorded, and nothing needed a guess.
    pub fn assert_clean(&self) {
        assert_eq!(self.status(), Some(0), "{}", self.stderr());
        assert_eq!(self.summary("complete"), true, "{}", self.stderr());
        assert_eq!(self.summary("lost_events"), 0);
        let notes = self.summary("notes").to_string();
        assert!(!notes.contains("implied"), "{notes}");
    }
}

/// A trace, read whole.
pub struct Seen {
    pub trace: Trace,
    pub records: Vec<Record>,
}

impl Seen {
    pub fn read(path: &Path) -> Seen {
        let trace = Trace::open(path).unwrap();
        assert!(trace.damage().is_empty(), "{:?}", trace.damage());
        let mut reader = trace.records().unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            records.push(record);
        }
        Seen { trace, records }
    }

    /// Events of a process that the test wants.
    pub fn count(&self, process: u32, wanted: impl Fn(&Event) -> bool) -> usize {
        let of = |record: &&Record| record.process == ProcessId(process) && wanted(&record.event);
        self.records.iter().filter(of).count()
    }

    /// The call stacks of the allocations of that size, each from the innermost function outwards: names, `?` for a place
    /// in a module without any, `??` for one in none, `cut` where it could not be followed.
    pub fn stacks_of(&self, size: u64) -> Vec<Vec<String>> {
        let (stacks, damage) = self.trace.stacks().unwrap();
        assert_eq!(damage, []);
        let mut records = self.trace.records().unwrap();
        let mut found = Vec::new();
        while let Some(run) = records.next_run().unwrap() {
            for (timed, &stack) in run.events.iter().zip(run.stacks) {
                let Event::Alloc { request, .. } = timed.event else { continue };
                if request.size == size {
                    found
                        .push(stacks.walk(stack).flat_map(|frame| names(&stacks, frame)).collect());
                }
            }
        }
        found
    }

    /// All requests that were met, failed ones and resizes not among them.
    pub fn requests(&self) -> Vec<Request> {
        let request = |record: &Record| match record.event {
            Event::Alloc { request, .. } => Some(request),
            _ => None,
        };
        self.records.iter().filter_map(request).collect()
    }

    /// Objects of a process of exactly this size that were made, and those of them freed.
    pub fn made_and_freed(&self, process: u32, size: u64) -> (usize, usize) {
        let (mut made, mut freed, mut live) = (0, 0, HashMap::new());
        for record in self.records.iter().filter(|record| record.process == ProcessId(process)) {
            match record.event {
                Event::Alloc { object, request } if request.size == size => {
                    made += 1;
                    live.insert(object, ());
                }
                Event::Free { object, .. } => freed += usize::from(live.remove(&object).is_some()),
                _ => {}
            }
        }
        (made, freed)
    }
}

fn names(stacks: &Stacks, frame: FrameId) -> Vec<String> {
    match stacks.frame(frame) {
        None => vec!["cut".into()],
        Some(frame) if frame.calls.is_empty() => {
            vec![if frame.module.is_some() { "?".into() } else { "??".into() }]
        }
        Some(frame) => frame.calls.iter().map(|call| call.function.clone()).collect(),
    }
}
