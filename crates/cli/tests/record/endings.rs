//! Programs that end badly, recorders that do, and requests that cannot be met.

use crate::support::{Bench, Seen, freehold};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KILLED: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  for (int i = 0; i < 100000; i++) free(malloc(5001));
  if (!strcmp(argv[1], "kill")) raise(SIGKILL);
  if (!strcmp(argv[1], "abort")) abort();
  if (!strcmp(argv[1], "fault")) *(volatile int *)8 = 1;
  if (!strcmp(argv[1], "exit")) _Exit(42);
  return 9;
}
"#;

#[test]
fn however_a_program_ends_nothing_is_lost_and_its_status_is_passed_on() {
    let bench = Bench::c(KILLED);
    for (how, status) in [("kill", 137), ("abort", 134), ("fault", 139), ("exit", 42)] {
        let recorded = bench.record(&[how]);
        assert_eq!(recorded.status(), Some(status), "{how}: {}", recorded.stderr());
        assert_eq!(recorded.seen().made_and_freed(0, 5001), (100_000, 100_000), "{how}");
        assert_eq!(recorded.summary("lost_events"), 0, "{how}");
    }
}

#[test]
fn what_the_program_prints_is_unchanged() {
    let bench = Bench::c(
        "#include <stdio.h>\nint main(void) { puts(\"out\"); fputs(\"err\\n\", stderr); }",
    );
    let output = bench.command(&[]).output().unwrap();
    assert_eq!(output.stdout, b"out\n");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("err\n"));
}

/// Works for a while, and says when it starts and whether all went well.
const WORKING: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  puts("begun"); fflush(stdout);
  for (int i = 0; i < 3000000; i++) { char *p = malloc(5101); if (!p) return 1; p[0] = 1; free(p); }
  puts("done");
  return 0;
}
"#;

#[test]
fn a_killed_recorder_ends_the_recording_and_not_the_program() {
    use std::io::{BufRead, BufReader, Read};
    let bench = Bench::c(WORKING);
    let mut recorder =
        bench.command(&[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(recorder.stdout.take().unwrap());
    let mut begun = String::new();
    output.read_line(&mut begun).unwrap();
    recorder.kill().unwrap();
    let status = recorder.wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(begun + &rest, "begun\ndone\n", "the program ran on to its end");
    let finished =
        freehold().args(["record", "--finish"]).arg(bench.trace_path()).output().unwrap();
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert!(said.contains("did not end properly"), "{said}");
    assert!(Seen::read(&bench.trace_path()).trace.events() < 6_000_100);
}

/// Allocates now and then, far less than fills a block.
const SLOW: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  puts("begun"); fflush(stdout);
  for (int i = 0; i < 3000; i++) { free(malloc(5301)); usleep(1000); }
  return 0;
}
"#;

#[test]
fn a_recorder_killed_within_a_second_leaves_what_came_before() {
    use std::io::{BufRead, BufReader};
    let bench = Bench::c(SLOW);
    let mut recorder =
        bench.command(&[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut begun = String::new();
    BufReader::new(recorder.stdout.take().unwrap()).read_line(&mut begun).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let finished =
        freehold().args(["record", "--finish"]).arg(bench.trace_path()).output().unwrap();
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.status.code(), Some(0), "{said}");
    let seen = Seen::read(&bench.trace_path());
    assert!(seen.made_and_freed(0, 5301).1 >= 20, "{said}");
    let last = seen.records.last().map_or(0.0, |record| seen.trace.header().seconds(record.tick));
    assert!((0.05..10.0).contains(&last), "the clock's rate is known: {last} s");
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    const MANY: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    int main(void) {
      static void *at[4096]; unsigned x = 1;
      for (int i = 0; i < 2500000; i++) {
        x = x * 1664525u + 1013904223u;
        free(at[x >> 20]); at[x >> 20] = malloc(1 + (x >> 8) % 3000);
      }
      puts("done");
    }"#;
    let bench = Bench::c(MANY);
    let mut limited = Command::new("sh");
    // In blocks of 512 bytes: 4.5 MiB hold a ring set, but not what this program does.
    limited.args(["-c", "ulimit -f 9216; exec \"$@\"", "sh"]);
    limited.arg(env!("CARGO_BIN_EXE_freehold")).args(["record", "--json", "-o"]);
    let output = limited.arg(bench.trace_path()).arg("--").arg(&bench.program).output().unwrap();
    let recorded = bench.recorded(output);
    assert_eq!(recorded.stdout(), "done\n");
    assert_eq!(recorded.status(), Some(125), "{}", recorded.stderr());
    assert!(recorded.stderr().contains("File too large"), "{}", recorded.stderr());
    assert!(recorded.summary("lost_events").as_u64() > Some(1000));
    assert!(recorded.seen().trace.events() > 1000, "what fitted is there");
}

#[test]
fn what_cannot_be_started_is_explained() {
    let bench = Bench::empty();
    let folder = bench.folder.path();
    std::fs::write(folder.join("text"), "no program\n").unwrap();
    for (program, status, reason) in [
        ("no-such-program-anywhere", 127, "PATH"),
        ("./no-such-file", 127, "no such file"),
        ("./text", 126, "chmod"),
        ("/", 126, "folder"),
    ] {
        let output = freehold()
            .current_dir(folder)
            .args(["record", "-o", "t.fht", "--", program])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{program}: {said}");
        assert!(said.contains(reason) && said.contains(program), "{program}: {said}");
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "no file is left: {left:?}");
    }
}

#[test]
fn an_output_that_cannot_be_is_refused_before_anything_runs() {
    let bench = Bench::c("#include <stdio.h>\nint main(void) { puts(\"ran\"); }");
    for output in ["/no/such/folder/t.fht", "/", "/dev/null"] {
        let done =
            freehold().args(["record", "-o", output, "--"]).arg(&bench.program).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(125), "{output}: {said}");
        assert!(said.contains(output), "{said}");
        assert_eq!(done.stdout, b"", "{output}: the program must not have run");
    }
}

#[test]
fn standard_output_is_no_file_for_a_trace() {
    let bench = Bench::c("#include <stdio.h>\nint main(void) { puts(\"ran\"); }");
    let folder = bench.folder.path();
    let record = ["record", "-o", "-", "--", "./program"];
    let import = ["import", "program.c", "-o", "-"];
    let compare = ["compare", "-o", "-", "--", "./program"];
    for arguments in [&record[..], &import, &compare] {
        let done = freehold().current_dir(folder).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("name a file"), "{arguments:?}: {said}");
        assert_eq!(done.stdout, b"", "{arguments:?}: nothing runs");
    }
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "no file of that name: {left:?}");
}

#[test]
fn an_interrupt_sent_to_the_recorder_reaches_the_program() {
    const WAITING: &str = "#include <stdio.h>\n#include <unistd.h>\n#include <stdlib.h>\n\
        int main(void) { free(malloc(5201)); puts(\"begun\"); fflush(stdout); for (;;) pause(); }";
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    let bench = Bench::c(WAITING);
    let mut command = bench.command(&[]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    // A shell ignores interrupts in what it runs in the background, tests among it, and so would the recorder.
    // SAFETY: between fork and exec only `signal` is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut recorder = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(recorder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let begun = Instant::now();
    let sent = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(Seen::read(&bench.trace_path()).made_and_freed(0, 5201), (1, 1));
}
