//! Instructions of whole workloads, counted by valgrind's callgrind and split by the library they ran in.

use super::allocators::Allocator;
use super::launch::{self, Job};
use super::place::Place;
use anyhow::Context;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Runs a job under callgrind; instructions outside the program itself and the dynamic loader: the allocator and what
/// it asks of libc (copying, zeroing). libc's other work is the same for every allocator.
pub fn count(place: &Place, allocator: &Allocator, job: &Job) -> anyhow::Result<u64> {
    let out = place.scratch.join("callgrind.out");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--fair-sched=yes"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(&job.program).args(&job.args).envs(allocator.env.iter().cloned());
    command.env_remove("LD_PRELOAD");
    if allocator.library.is_some() {
        command.env("LD_PRELOAD", launch::preload(allocator, job));
    }
    let output = command.stdin(Stdio::null()).output().context("valgrind cannot be started")?;
    anyhow::ensure!(
        output.status.success(),
        "valgrind ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
    );
    let text = std::fs::read_to_string(&out)?;
    let program = job.program.display().to_string();
    let counted = by_object(&text);
    let kept =
        counted.iter().filter(|(object, _)| **object != program && !object.contains("/ld-linux"));
    Ok(kept.map(|(_, cost)| cost).sum())
}

/// Self cost by object file. In callgrind's format `ob=(id) name` names the object of what follows (the name only the
/// first time), a cost line is a position and a number, and the line after `calls=` is the callee's and not counted.
pub fn by_object(text: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut costs = BTreeMap::new();
    let (mut object, mut callee) = ("", false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=").or_else(|| line.strip_prefix("cob=")) {
            let (id, rest) = name.split_once(' ').unwrap_or((name, ""));
            if !rest.is_empty() {
                names.insert(id, rest);
            }
            if line.starts_with("ob=") {
                object = names.get(id).copied().unwrap_or(id);
            }
        } else if line.starts_with("calls=") {
            callee = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if !std::mem::take(&mut callee) {
                *costs.entry(object.to_owned()).or_insert(0) += cost.unwrap_or(0);
            }
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::by_object;

    #[test]
    fn callees_count_in_their_own_object() {
        let text = "events: Ir\n\nob=(1) /bin/a\nfn=(1) main\n3 10\ncob=(2) /lib/m.so\ncfn=(2) malloc\ncalls=1 5\n4 70\n+1 2\n\n\
                    ob=(2)\nfn=(2)\n5 60\n* 10\n";
        let costs = by_object(text);
        assert_eq!(costs["/bin/a"], 12);
        assert_eq!(costs["/lib/m.so"], 70);
    }
}
