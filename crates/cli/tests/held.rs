//! Pages that few bytes keep: what `info` says of a site, beside what the program itself counts in `/proc/self/pagemap`, under several allocators.

use freehold_testkit::skip;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How far the two counts may lie apart.
const TOLERANCE: f64 = 0.05;

/// Opens sessions among messages of several sizes and frees the messages; then it counts the pages in memory of which sessions have at most a
/// quarter, and prints the sessions' bytes there and the pages' bytes. (What else lives is a few long blocks.)
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define SESSIONS 6000
#define BETWEEN 40
#define BYTES 104
static char *sessions[SESSIONS];
static char *messages[SESSIONS * BETWEEN];
static char *open_session(int number) {
    char *session = malloc(BYTES);
    memset(session, number + 1, BYTES);
    return session;
}
static int later(const void *a, const void *b) {
    char *x = *(char **)a, *y = *(char **)b;
    return (x > y) - (x < y);
}
static void count(void) {
    int map = open("/proc/self/pagemap", O_RDONLY);
    long live = 0, pages = 0;
    qsort(sessions, SESSIONS, sizeof *sessions, later);
    uintptr_t page = 0;
    long used = 0;
    for (int i = 0; i <= SESSIONS; i++) {
        uintptr_t first = i < SESSIONS ? (uintptr_t)sessions[i] : UINTPTR_MAX - BYTES;
        for (int half = 0; half < 2; half++) {
            uintptr_t from = half ? (first | 4095) + 1 : first;
            uintptr_t to = half ? first + BYTES : (first | 4095) + 1;
            if (to > first + BYTES) to = first + BYTES;
            if (from >= to) continue;
            if (from / 4096 != page) {
                uint64_t entry = 0;
                if (used && used <= 1024 && pread(map, &entry, 8, page * 8) == 8 && entry >> 63) {
                    live += used;
                    pages += 4096;
                }
                page = from / 4096;
                used = 0;
            }
            used += to - from;
        }
    }
    close(map);
    char text[100];
    int length = snprintf(text, sizeof text, "%ld %ld\n", live, pages);
    if (write(1, text, length) != length) exit(2);
}
int main(void) {
    for (int i = 0; i < SESSIONS; i++) {
        sessions[i] = open_session(i);
        for (int m = 0; m < BETWEEN; m++) {
            char *message = messages[i * BETWEEN + m] = malloc(80 + m % 3 * 16);
            memset(message, m, 80);
        }
    }
    for (int i = 0; i < SESSIONS * BETWEEN; i++) free(messages[i]);
    usleep(1500000); /* served; an allocator that gives pages back has done so */
    count();
    usleep(300000);
    _exit(0);
}
"#;

fn assert_counts_agree(preload: Option<&Path>) {
    let folder = tempfile::tempdir().unwrap();
    let (source, program, trace) =
        (folder.path().join("held.c"), folder.path().join("held"), folder.path().join("t.fht"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-fno-builtin-malloc", "-o"]).arg(&program).arg(&source);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return skip("no compiler named cc"),
    }
    let mut record = Command::new(env!("CARGO_BIN_EXE_freehold"));
    record.stdin(Stdio::null()).args(["record", "-q", "-o"]).arg(&trace).arg("--");
    if let Some(library) = preload {
        record.env("LD_PRELOAD", library);
    }
    let output = record.arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counted = String::from_utf8(output.stdout).unwrap();
    let counted: Vec<f64> = counted.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let mut info = Command::new(env!("CARGO_BIN_EXE_freehold"));
    let json = info.args(["info", "--json"]).arg(&trace).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let sites = json["sites"]["sites"].as_array().unwrap();
    let site = sites.iter().find(|site| site["function"] == "open_session").unwrap();
    let told = ["keeping_bytes", "kept_page_bytes"].map(|field| site[field].as_f64().unwrap());
    for (told, counted) in told.into_iter().zip(counted) {
        let apart = (told - counted).abs();
        assert!(apart <= counted * TOLERANCE, "told {told}, counted {counted}, of {site}");
    }
    assert!(json["sites"]["kept_s"].is_number(), "seen, not modelled");
}

fn library(start: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let mut files = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let found = files.find(|file| file.file_name().to_string_lossy().starts_with(start));
    if found.is_none() {
        skip(&format!("there is no {start}"));
    }
    found.map(|file| file.path())
}

fn under_glibc() {
    assert_counts_agree(None);
}

fn under_jemalloc() {
    let Some(library) = library("libjemalloc.so.2") else { return };
    assert_counts_agree(Some(&library));
}

fn under_mimalloc() {
    let Some(library) = library("libmimalloc.so.2") else { return };
    assert_counts_agree(Some(&library));
}

/// The library that `freehold run` preloads. (Under `freehold run` itself it comes before the recorder's, which then sees nothing.)
fn under_freehold() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_freehold"));
    let output = run.args(["run", "-q", "--", "sh", "-c", "echo $LD_PRELOAD"]).output().unwrap();
    let library = String::from_utf8(output.stdout).unwrap();
    assert_counts_agree(Some(Path::new(library.trim())));
}

freehold_testkit::trials!(under_glibc, under_jemalloc, under_mimalloc, under_freehold);
