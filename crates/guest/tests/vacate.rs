//! A node that is left while the program runs: all its pages gone from there, its results right, little moved.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod support;

use std::collections::BTreeMap;
use support::{four_nodes, job, run};

freehold_testkit::trials!(a_node_is_left_while_the_program_runs);

fn a_node_is_left_while_the_program_runs() {
    // Only what the library moves shall count.
    let script = "echo 0 >/proc/sys/kernel/numa_balancing; LD_PRELOAD=/libfreehold.so /vacate";
    let done = run(&job(four_nodes(512), "vacate", script));
    println!("{}", done.stdout);
    let told: BTreeMap<&str, Vec<u64>> = done
        .stdout
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name");
            (name, words.map(|word| word.parse().expect("a number")).collect())
        })
        .collect();
    freehold_testkit::figures::keep(&format!(r#"{{"kind":"vacate","bytes":{told:?}}}"#));
    let [before, all] = told["before"][..] else { panic!("{}", done.stdout) };
    let [moved, by_kernel, _] = told["moved"][..] else { panic!("{}", done.stdout) };
    assert!(before > 16 << 20, "{before} bytes were there");
    assert!(all - before > 20 << 20, "{all} with what is of no heap");
    assert_eq!((told["wrong"][0], told["bound"][0]), (0, 1));
    let [own, all_of_heap] = told["followed"][..] else { panic!("{}", done.stdout) };
    assert!(own * 100 >= all_of_heap * 99, "{own} of {all_of_heap} on the thread's own node");
    assert_eq!(told["after"], [0, 0], "in heaps, in all");
    assert_eq!(told["later"], [0], "and none came");
    assert!(moved * 100 <= all * 105 && by_kernel * 100 <= all * 105, "{moved}, {by_kernel}");
    assert!(moved * 100 >= all * 60, "most was in use, and little of it freed meanwhile: {moved}");
    let [calls, more] = told["calls"][..] else { panic!("{}", done.stdout) };
    assert!(calls > 1 && more == 0, "in {calls} calls");
    let [there, all] = told["readmitted"][..] else { panic!("{}", done.stdout) };
    assert!(there * 100 >= all * 98, "{there} of {all}");
}
