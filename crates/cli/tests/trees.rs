//! `freehold compare` on programs of several processes: the one that has the memory is judged, all are listed by memory, by
//! what they call themselves.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder in which something is compared.
struct Desk(TempDir);

/// What was said.
struct Said {
    terminal: String,
    page: String,
}

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compare(&self, program: &[&str]) -> Command {
        self.freehold(&[&["compare", "--on", "good-fit", "--"], program].concat())
    }

    fn freehold(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
        command.current_dir(self.0.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.args(words);
        command
    }

    fn said(&self, output: Output) -> Said {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let terminal = String::from_utf8(output.stdout).unwrap();
        Said { terminal, page: std::fs::read_to_string(self.path("report.html")).unwrap() }
    }
}

impl Said {
    /// `name` is judged, and `others` are listed behind it.
    fn assert_judged(&self, name: &str, others: &[&str]) {
        let Said { terminal, page } = self;
        assert!(
            terminal.contains(&format!("\n{name}: ")) || terminal.starts_with(&format!("{name}: ")),
            "{terminal}"
        );
        assert!(terminal.contains(&format!(" {name} (process ")), "{terminal}");
        let (_, listed) = page
            .split_once("The processes of the trace with the most memory</caption>")
            .expect("a table of them");
        let (listed, _) = listed.split_once("</table>").unwrap();
        let (own, rest) = listed.split_once("(this report)").expect("the one that is judged");
        assert!(
            own.contains(&format!(" {name} ("))
                || own.contains(&format!(" {name} ")) && own.matches("<tr>").count() <= 2,
            "it is first: {own}"
        );
        for other in others {
            assert!(rest.contains(&format!(" {other}")), "{other} in {rest}");
        }
    }
}

/// Skips the test where a command is missing.
fn has(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .any(|folder| folder.join(command).exists());
    if !found {
        freehold_testkit::skip(&format!("{command} is not installed"));
    }
    found
}

/// tar does the calls of the file tree, zstd, its child, has the memory.
fn of_tar_that_calls_zstd_the_latter_is_judged() {
    if !has("tar") || !has("zstd") {
        return;
    }
    let desk = Desk::new();
    std::fs::create_dir(desk.path("tree")).unwrap();
    let mut state = 1u64;
    for file in 0..40 {
        let mut bytes = Vec::with_capacity(200_000);
        while bytes.len() < 200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend(format!("{:x} ", state >> 40).bytes());
        }
        std::fs::write(desk.path("tree").join(format!("f{file}")), bytes).unwrap();
    }
    let mut compare = desk.compare(&["tar", "--zstd", "-cf", "out.tar.zst", "tree"]);
    let said = desk.said(compare.output().unwrap());
    said.assert_judged("zstd", &["tar"]);
    assert!(said.terminal.contains("ZSTD_") || said.terminal.contains("MiB"), "{}", said.terminal);
}

fn of_a_script_with_75_processes_the_one_that_sorts_is_judged() {
    let desk = Desk::new();
    let script = "i=0; while [ $i -lt 72 ]; do i=$(/usr/bin/expr $i + 1); done; /usr/bin/seq 300000 | /usr/bin/sort -r >sorted; :";
    let said = desk.said(desk.compare(&["sh", "-c", script]).output().unwrap());
    said.assert_judged("sort", &["seq", "expr", "sh"]);
    let (_, of) = said.terminal.split_once("sort (process ").unwrap();
    let of = of.split_once(" of ").unwrap().1;
    let many: u32 =
        of.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!(many >= 75, "{}", said.terminal);
}

/// What stands below each headline of the terminal, and that headline's name.
fn judged_in(terminal: &str) -> Vec<&str> {
    let lines = terminal.lines().filter(|line| line.contains(" events in "));
    lines.filter_map(|line| Some(line.split_once(": ")?.0)).collect()
}

/// Two sorts have memory; what makes their input, and the shell, have a hundredth of it.
fn of_a_script_each_process_with_memory_is_judged_if_all_are_asked_for() {
    let desk = Desk::new();
    let script = "/usr/bin/seq 300000 | /usr/bin/sort -r -S 8M >a; /usr/bin/seq 200000 | /usr/bin/sort -S 4M >b; :";
    let on = ["--on", "good-fit", "--process", "all"];
    let also = ["--keep", "t.fht", "--results", "r.json"];
    let words = [&["compare"], &on[..], &also, &["--", "/bin/sh", "-c", script]].concat();
    let Said { terminal, page } = desk.said(desk.freehold(&words).output().unwrap());

    // All are listed, by their names, and the two are judged one after the other.
    let (list, judged) = terminal.split_once("add up to").expect("what all have together");
    for name in [" sh ", " seq ", " sort (judged) "] {
        assert!(list.contains(name), "{name} in {terminal}");
    }
    assert_eq!(list.matches("(judged)").count(), 2, "{terminal}");
    assert_eq!(judged_in(judged), ["sort", "sort"], "{terminal}");
    assert_eq!(judged.matches("Policies, on simulated memory").count(), 2, "{terminal}");
    assert_eq!(judged.matches("What there is").count(), 2, "{terminal}");

    // The same in the results: the heavier is first. The report has the other one below it.
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(desk.path("r.json")).unwrap()).unwrap();
    let judged = document["judged"].as_array().unwrap();
    let number = |of: usize| judged[of]["trace"]["process"].as_u64().unwrap();
    let live = |of: usize| judged[of]["results"][0]["peak_live"].as_u64().unwrap();
    assert!(judged.len() == 2 && number(0) != number(1), "{document}");
    assert!(live(0) > live(1) && live(1) > live(0) / 10, "{} {}", live(0), live(1));
    let (first, below) =
        page.split_once(&format!("<figure id=\"process-{}\">", number(1))).unwrap();
    assert!(first.contains(&format!("<a href=\"#process-{0}\">P{0} sort</a>", number(1))));
    assert!(first.contains(&format!("P{} sort (judged)", number(0))), "the list");
    assert!(below.contains("<dt>What to do</dt>") && below.contains("good-fit"));

    // A replay of the trace judges the same, byte for byte.
    let words = [&["replay", "t.fht"], &on[..], &["--json", "-o", "r.parquet"]].concat();
    let replayed = desk.freehold(&words).output().unwrap();
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    let replayed: serde_json::Value = serde_json::from_slice(&replayed.stdout).unwrap();
    for of in 0..2 {
        assert_eq!(replayed["judged"][of]["results"], judged[of]["results"]);
    }
    assert!(desk.path("r.parquet").exists() && desk.path("r.machine.json").exists());
}

/// A page, over the socket of the server.
fn page_of(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The workers have the tables of connections; the master reads the settings. They name themselves after they began.
fn of_nginx_a_worker_is_judged() {
    if !has("nginx") {
        return;
    }
    let desk = Desk::new();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|part| format!("{part}_temp_path {part}; "))
        .concat();
    let settings = format!(
        "daemon off; pid nginx.pid; error_log errors; worker_processes 2;\n\
         events {{ worker_connections 20000; }}\n\
         http {{ access_log off; {temporary} server {{ listen unix:{}/socket; location / {{ return 200 'hello'; }} }} }}\n",
        desk.0.path().display()
    );
    // As root, workers would become somebody who may not write here.
    // SAFETY: it only asks.
    let user = if unsafe { libc::geteuid() } == 0 { "user root;\n" } else { "" };
    std::fs::write(desk.path("nginx.conf"), format!("{user}{settings}")).unwrap();
    let folder = desk.0.path().to_str().unwrap().to_owned() + "/";
    let nginx = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    let mut compare = desk.compare(&[nginx, "-p", &folder, "-c", "nginx.conf"]);
    let child = compare.stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let mut answer = page_of(&desk.path("socket"));
    while answer.is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        answer = page_of(&desk.path("socket"));
    }
    for _ in 0..50 {
        assert!(page_of(&desk.path("socket")).is_ok_and(|page| page.ends_with("hello")));
    }
    // Long enough for looks at what they call themselves.
    std::thread::sleep(Duration::from_millis(300));
    let master: i32 =
        std::fs::read_to_string(desk.path("nginx.pid")).unwrap().trim().parse().unwrap();
    // SAFETY: the server's own number, which it wrote.
    assert_eq!(unsafe { libc::kill(master, libc::SIGQUIT) }, 0);
    let mut said = desk.said(child.wait_with_output().unwrap());
    // A worker that is seen as it ends calls itself otherwise.
    for text in [&mut said.terminal, &mut said.page] {
        *text = text.replace("worker process is shutting down", "worker process");
    }
    said.assert_judged(
        "nginx: worker process",
        &["nginx: worker process", "nginx: master process"],
    );
}

freehold_testkit::trials!(
    of_tar_that_calls_zstd_the_latter_is_judged,
    of_a_script_with_75_processes_the_one_that_sorts_is_judged,
    of_a_script_each_process_with_memory_is_judged_if_all_are_asked_for,
    of_nginx_a_worker_is_judged,
);
