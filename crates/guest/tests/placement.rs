//! Where blocks lie on four nodes: on the node of the thread that asked for them, page by page by the kernel's word.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod support;

use std::collections::BTreeMap;
use support::{MALLOCS, four_nodes, job, run, with_peers};

freehold_testkit::trials!(
    blocks_lie_on_the_node_of_their_thread,
    a_policy_of_the_user_s_stands,
    refused_calls_break_nothing,
    tests_side_by_side_get_one_program_that_nobody_writes_any_more,
);

/// The same file for everyone, whole as soon as the first one has it.
fn tests_side_by_side_get_one_program_that_nobody_writes_any_more() {
    let seen = || {
        let program = support::compile("refused");
        let written = std::fs::metadata(&program).and_then(|found| found.modified());
        (written.expect("it is there"), std::fs::read(&program).expect("it can be read"), program)
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let tests: Vec<_> = (0..6).map(|_| scope.spawn(seen)).collect();
        tests.into_iter().map(|test| test.join().expect("it compiles")).collect()
    });
    let written: Vec<_> = all.iter().map(|one| one.0).collect();
    assert!(all.iter().all(|one| *one == all[0]), "written {written:?}");
    let late = std::fs::metadata(&all[0].2).and_then(|found| found.modified());
    assert_eq!(late.expect("it is there"), all[0].0);
}

/// The least share of its bytes that a thread has on its own node, by round.
fn least_shares(lines: &str) -> BTreeMap<&str, f64> {
    let mut least = BTreeMap::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [round, _node, own, other] = words[..] else { panic!("{line}") };
        let (own, other): (f64, f64) = (own.parse().expect("bytes"), other.parse().expect("bytes"));
        let share = least.entry(round).or_insert(1.0);
        *share = f64::min(*share, own / (own + other));
    }
    least
}

fn blocks_lie_on_the_node_of_their_thread() {
    let script: String = MALLOCS
        .iter()
        .map(|(name, library)| {
            // On a loaded machine some peers take minutes here, or for ever; of those nothing is said.
            let or_else =
                if *name == "freehold" { "exit 1".into() } else { format!("rm /out/{name}") };
            format!("LD_PRELOAD={library} timeout 90 /local >/out/{name} || {or_else}\n")
        })
        .collect();
    let done = run(&with_peers(job(four_nodes(1024), "local", &script)));
    println!("least share of a thread's live bytes on its own node (8 threads, 4 nodes):");
    for (name, _) in MALLOCS {
        let lines = std::fs::read_to_string(done.files.path().join(name)).unwrap_or_default();
        if lines.is_empty() && name != "freehold" {
            println!("  {name:9} did not end in 90 s");
            continue;
        }
        assert_eq!(lines.lines().count(), 3 * 8, "{name}:\n{lines}");
        let least = least_shares(&lines);
        println!("  {name:9} {least:.4?}");
        freehold_testkit::figures::keep(&format!(
            r#"{{"kind":"placement","malloc":"{name}","least_share":{least:.4?}}}"#
        ));
        if name == "freehold" {
            assert!(least.values().all(|&share| share >= 0.99), "{lines}");
        }
    }
}

/// With a policy set for the process, as `numactl --interleave` sets it, pages lie where that says.
fn a_policy_of_the_user_s_stands() {
    let script =
        "LD_PRELOAD=/libfreehold.so /policy interleave && LD_PRELOAD=/libfreehold.so /policy thread
        mkdir /sys/fs/cgroup/two && echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
        echo 2 >/sys/fs/cgroup/two/cpuset.mems && echo $$ >/sys/fs/cgroup/two/cgroup.procs
        LD_PRELOAD=/libfreehold.so /policy cpuset 2
        mkdir /sys/fs/cgroup/small && echo +memory >/sys/fs/cgroup/cgroup.subtree_control
        echo 100M >/sys/fs/cgroup/small/memory.max && echo $$ >/sys/fs/cgroup/small/cgroup.procs
        LD_PRELOAD=/libfreehold.so /policy limited";
    let done = run(&job(four_nodes(512), "policy", script));
    assert_eq!(done.stdout, "interleave\nthread\ncpuset\nlimited\n", "{}", done.stderr);
}

/// seccomp that refuses every call about memory policies, as containers have it.
fn refused_calls_break_nothing() {
    let script = "LD_PRELOAD=/libfreehold.so /refused /local >/out/lines";
    let done = run(&{
        let mut job = job(four_nodes(1024), "refused", script);
        job.files.extend(support::job(four_nodes(1024), "local", "").files);
        job
    });
    let lines = std::fs::read_to_string(done.files.path().join("lines")).expect("it was left");
    // The program has looked at its contents. Where pages lie is the system's choice now, which moves them to whoever
    // touches them (kernel.numa_balancing).
    assert_eq!(lines.lines().count(), 3 * 8, "{lines}");
    println!("without mbind: {:.4?}", least_shares(&lines));
}
