//! What the study's file may say, and what is answered to the rest.

use super::*;

fn plan(changes: &[&str]) -> Result<Plan, PlanError> {
    let mut settings = Settings::of_default(DEFAULT).expect("the default is TOML");
    for change in changes {
        settings.set(change)?;
    }
    Plan::new(&settings)
}

fn said(changes: &[&str]) -> String {
    plan(changes).expect_err("it should be refused").to_string()
}

#[test]
fn the_default_is_the_spec_s_setting() {
    let plan = plan(&[]).unwrap();
    assert_eq!((plan.attempts, plan.loads.as_slice()), (100, &[100, 1000, 2000][..]));
    assert_eq!(plan.machine.nodes(), 4);
    assert_eq!(plan.tables().count(), 12);
    assert_eq!((plan.thresholds, plan.effort), (Thresholds::PAPER, Effort::Strict));
    assert_eq!(plan.dmrt, DmrtParams::PAPER);
    let paths: Vec<String> = plan.cases.iter().map(|case| case.existing.to_string()).collect();
    assert_eq!(paths, ["local", "local", "search", "local>shared>search"]);
}

#[test]
fn eight_nodes_repeat_what_four_have() {
    let plan = plan(&["machine.nodes=8"]).unwrap();
    assert_eq!(plan.background.len(), 8);
    assert_eq!(plan.background[..4], plan.background[4..]);
}

#[test]
fn keys_and_names_that_are_not_there_are_answered_with_the_nearest() {
    assert!(said(&["atempts=3"]).contains("did you mean attempts?"));
    assert!(said(&["machine.node=3"]).contains("did you mean machine.nodes"));
    assert!(said(&["place.serch=strict"]).contains("place.search"));
    assert!(said(&["allocators=[\"dlmaloc\", \"dmrt\"]"]).contains("did you mean dlmalloc?"));
}

#[test]
fn impossible_machines_are_refused() {
    assert_eq!(said(&["machine.nodes=0"]), "machine.nodes: a machine has 1 to 64 nodes, not 0");
    assert!(said(&["machine.nodes=65"]).contains("not 65"));
    assert!(said(&["machine.nodes=3"]).contains("4 values cannot be shared out among 3 nodes"));
    let negative = said(&["machine.nodes=-1"]);
    assert_eq!(negative, "machine.nodes: invalid value: integer `-1`, expected u32");
    assert!(said(&["machine.capacity=1K"]).contains("the memory of N0 cannot have 1024 bytes"));
    assert!(said(&["machine.shared=900T"]).contains("the shared memory cannot have"));
    assert!(said(&["machine.capacity=lots"]).contains("\"lots\" is no number of bytes"));
    assert!(said(&["machine.processors_per_node=0"]).contains("processors, not 0"));
}

#[test]
fn impossible_weights_ranges_and_loads_are_refused() {
    assert!(
        said(&["requests_from.node_weights=[0, 0, 0, 0]"]).contains("weights of nodes are all 0")
    );
    let none = ["sizes.small.weight=0", "sizes.normal.weight=0", "sizes.large.weight=0"];
    assert!(said(&none).contains("weights of size classes are all 0"));
    assert!(said(&["sizes.small.least=900"]).contains("sizes from 900 to 511 is no range"));
    assert!(said(&["requests_from.lifetime_least=0"]).contains("lifetimes from 0 to 4000"));
    assert!(
        said(&["background.nodes=[5, 30, 99, 20]"]).contains("0 to 95 percent is possible, not 99")
    );
    assert!(said(&["attempts=0"]).starts_with("attempts: 1 to 1000000 is possible"));
    assert!(said(&["requests=[]"]).starts_with("requests: at least one number"));
    assert!(said(&["requests=[100, 0]"]).starts_with("requests: 1 to"));
}

#[test]
fn words_paths_and_limits_are_checked() {
    assert!(said(&["place.search=lazy"]).contains("strict or complete is possible, not \"lazy\""));
    assert!(said(&["place.light_to=100"]).starts_with("place: light must end below"));
    assert!(
        said(&["cases.1.dmrt=local>ideal"]).starts_with("cases.1.dmrt: a path is one to three")
    );
    assert!(said(&["sizes.small.draw=normal"]).contains("uniform or log-uniform is possible"));
    assert!(said(&["dmrt.small_below=4K"]).contains("at most 1024"));
    assert!(said(&["dmrt.large_fit=big"]).contains("head or longest is possible"));
    assert!(said(&["time.remote_ns=[]"]).contains("remote memory needs at least one cost"));
    assert!(said(&["time.local_ns=99999999999"]).contains("local memory cannot cost"));
    assert!(said(&["allocators=[\"tlsf\"]"]).contains("dmrt must be among them"));
    assert!(said(&["what_if.existing_capacity=0"]).contains("1 to 100 percent"));
    assert!(said(&["requests_from.source=missing.fht"]).contains("missing.fht"));
}
