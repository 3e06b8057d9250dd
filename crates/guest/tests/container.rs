//! In a container (a control group with `memory.max`) a service lives whose free memory must serve other sizes in time.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod support;

use freehold_guest::{Bytes, Machine};
use support::{MALLOCS, job, run, with_peers};

freehold_testkit::trials!(a_service_lives_in_its_container);

fn a_service_lives_in_its_container() {
    let mut script = "mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control
        in_container() {
            mkdir /sys/fs/cgroup/$1 && echo 100M >/sys/fs/cgroup/$1/memory.max
            (read -r self rest </proc/self/stat; echo $self >/sys/fs/cgroup/$1/cgroup.procs
             FREEHOLD_LIMIT=$2 LD_PRELOAD=$3 exec /container 60 >/out/$1 2>/dev/null) || true
        }\n"
    .to_owned();
    for (name, library) in MALLOCS {
        script += &format!("in_container {name} auto {library}\n");
    }
    script += &format!("in_container without none {}\n", MALLOCS[0].1);
    let machine = Machine::even(1, 2, Bytes(512 << 20)).expect("a machine");
    let done = run(&with_peers(job(machine, "container", &script)));
    let said = |name: &str| {
        std::fs::read_to_string(done.files.path().join(name)).unwrap_or_else(|_| "-".to_owned())
    };
    let all = MALLOCS.map(|(name, _)| (name, said(name)));
    println!("{all:?}, freehold without FREEHOLD_LIMIT=auto: {:?}", said("without"));
    for (name, said) in &all {
        let lives = *name == "freehold";
        assert_eq!(said, if lives { "lived\n" } else { "" }, "{name}: {}", done.stderr);
    }
    assert_eq!(said("without"), "", "it lives anyway: no test");
}
