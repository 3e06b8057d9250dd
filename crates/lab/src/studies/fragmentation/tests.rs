//! The file that ships can be read, and what is wrong with another is said.

use super::*;

fn outcome(name: &str, external: f64) -> Outcome {
    Outcome {
        name: name.to_owned(),
        external_fragmentation: Some(external),
        internal_fragmentation: Some(0.1),
        ..Outcome::default()
    }
}

/// Three recordings; external fragmentation as given, of dmrt and tlsf.
fn results(dmrt: [f64; 3], tlsf: [f64; 3]) -> Results {
    let mut plan = Plan::parse("default", DEFAULT).unwrap();
    plan.recordings = 3;
    plan.policies = ["dmrt", "tlsf"].map(String::from).to_vec();
    let recorded = plan.paddings().zip(dmrt).zip(tlsf).map(|((padding, dmrt), tlsf)| {
        Recording::of(padding, 1 << 20, &[outcome("dmrt", dmrt), outcome("tlsf", tlsf)])
    });
    let found = Found::of(&plan, &plan.programs[0], recorded.collect());
    let gone = Found::missing(&plan.programs[3], "redis-server is not installed".to_owned());
    Results::of(&plan, vec![found, gone])
}

#[test]
fn the_study_that_ships_names_six_programs_and_reads_back() {
    let plan = Plan::parse("default", DEFAULT).unwrap();
    let names: Vec<&str> = plan.programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["python3", "g++", "sqlite3", "redis", "git", "perl"]);
    for (path, text) in INPUTS {
        let named = plan.programs.iter().any(|p| p.command.iter().any(|word| word.contains(path)));
        assert!(named && !text.is_empty(), "{path}");
    }
    let words = plan.programs[1].command_in(Path::new("here"), Path::new("there"));
    assert_eq!(words[..3], ["env", "-C", "here"]);
    assert!(words.contains(&"there/fragmentation/words.cc".to_owned()));
    assert_eq!((plan.recordings, plan.policies.len()), (5, 9));
    assert_eq!(plan.paddings().collect::<Vec<_>>(), [0, 8, 16, 24, 32]);
    let lacks = plan.programs[1].lacks(&[]);
    assert_eq!(lacks, Some("g++"));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let said = |from: &str, to: &str| {
        assert!(DEFAULT.contains(from));
        Plan::parse("mine.toml", &DEFAULT.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(
        said("\"tlsf\", \"tlsf-2.4.6\"", "\"tslf\"")
            .contains("no policy or model is called \"tslf\"")
    );
    assert!(
        said("\"tlsf\", \"tlsf-2.4.6\"", "\"good-fit\"").contains("tlsf is not among policies")
    );
    assert!(said("about =", "abuot =").contains("unknown field `abuot`"));
    assert!(said("name = \"python3\"", "name = \"a/b\"").contains("can be a file's"));
    assert!(said("recordings = 5", "recordings = 1").contains("recordings: 1 give no interval"));
    assert!(said("padding = 8", "padding = 0").contains("wants 1 to 1000 variables"));
    assert!(said("padding = 8", "padding = 999").contains("wants 1 to 1000 variables"));
    assert!(said("[[trace]]", "[[trace").starts_with("mine.toml is not TOML"));
}

#[test]
fn a_program_sees_nothing_of_ours_but_where_programs_are() {
    let plan = Plan::parse("default", DEFAULT).unwrap();
    let python = &plan.programs[0];
    let variables = |padding| python.environment_in(Path::new("here"), padding);
    let (short, long) = (variables(0), variables(8));
    let keys: Vec<&str> = short.iter().filter_map(|one| one.0.to_str()).collect();
    let mut wanted = vec!["HOME", "LC_ALL", "PATH", "PYTHONHASHSEED", "PYTHONMALLOC", "TMPDIR"];
    wanted.retain(|key| *key != "PATH" || std::env::var_os("PATH").is_some());
    assert_eq!(keys.iter().filter(|key| **key != "LD_LIBRARY_PATH").collect::<Vec<_>>(), {
        wanted.iter().collect::<Vec<_>>()
    });
    let more: Vec<_> = long.iter().filter(|one| !short.contains(one)).collect();
    let bytes: usize = more.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
    assert_eq!((long.len() - short.len(), more.len(), bytes), (8, 8, 832), "{more:?}");
}

#[test]
fn all_is_told_met_or_not_there_or_missing() {
    let results = results([0.2, 0.3, 0.4], [0.25, 0.34, 0.44]);
    let tally = Tally { at_most: 4, clearly_less: 1, no_difference: 0, more: 0 };
    assert_eq!(results.tally, tally, "Johnstone-Wilson's and internal are the same in both");
    let answer = results.answer();
    assert!(answer.contains("Over 3 recordings of each of 1 programs, by 4 measures"), "{answer}");
    assert!(
        answer.contains("in 4 (clearly less in 1), not distinguishably more in 0, more in 0 of 4")
    );
    assert!(answer.ends_with("1 could not be recorded here."), "{answer}");
    let page = page(&results, "freehold study fragmentation");
    assert!(page.contains("dmrt is at most tlsf&#39;s in all."));
    assert!(page.contains("-4.333 ± 1.434, at most") && page.contains("+0.000 ± 0.000, at most"));
    assert!(page.contains("Missing: redis-server is not installed."));
    assert!(page.contains("looked at on eighteen held out"), "the note stands on the page");
    crate::report::sound::assert_sound(&page);
}

#[test]
fn more_and_not_distinguishable_are_told_apart_and_named() {
    let answer = results([0.2, 0.3, 0.4], [0.19, 0.29, 0.39]).answer();
    assert!(answer.contains("not distinguishably more in 0, more in 1 of 4"), "{answer}");
    assert!(answer.contains(" More: python3 (External).") && !answer.contains("Not disting"));
    let maybe = results([0.2, 0.3, 0.4], [0.1, 0.35, 0.38]);
    let answer = maybe.answer();
    assert!(answer.contains("not distinguishably more in 1, more in 0 of 4"), "{answer}");
    assert!(answer.contains(" Not distinguishable: python3 (External)."), "{answer}");
    let page = page(&maybe, "freehold study fragmentation");
    assert!(page.contains("dmrt is not distinguishable from tlsf in External."));
}

/// A file whose policy was chosen on its programs counts no predictions and does not claim to have named them beforehand.
#[test]
fn what_was_chosen_on_its_programs_predicts_nothing() {
    let chosen_on = include_str!("../../../../../studies/peaks-chosen-on.toml");
    assert!(Plan::parse("chosen on", chosen_on).unwrap().target.fitted);
    let held_out = include_str!("../../../../../studies/peaks-held-out.toml");
    assert!(!Plan::parse("held out", held_out).unwrap().target.fitted);
    let mut results = results([0.2, 0.3, 0.4], [0.1, 0.35, 0.38]);
    assert!(results.target.fitted);
    let said = |results: &Results| page(results, "");
    assert!(
        !said(&results).contains("predicted: holds in") && said(&results).contains("fitted in ")
    );
    assert!(!said(&results).contains("before anything was measured"));
    results.target.fitted = false;
    assert!(said(&results).contains("before anything was measured"));
}

#[test]
fn every_policy_is_counted_beside_the_target_s_two() {
    let mut plan = Plan::parse("default", DEFAULT).unwrap();
    plan.recordings = 2;
    plan.policies = ["dmrt", "tlsf", "best-fit"].map(String::from).to_vec();
    let outcomes = [outcome("dmrt", 0.2), outcome("tlsf", 0.3), outcome("best-fit", 0.1)];
    let recorded = plan.paddings().map(|padding| Recording::of(padding, 1, &outcomes)).collect();
    let found = Found::of(&plan, &plan.programs[0], recorded);
    assert!(found.policies[1].to_rival.is_empty(), "tlsf beside itself says nothing");
    let results = Results::of(&plan, vec![found]);
    let counts = |tally: Option<Tally>| tally.map(|t| (t.at_most, t.no_difference, t.more));
    let [dmrt, tlsf, best] = &results.counted[..] else { panic!("{:?}", results.counted) };
    assert_eq!((counts(dmrt.beside_rival), counts(dmrt.target_beside)), (Some((4, 0, 0)), None));
    assert_eq!((counts(tlsf.beside_rival), counts(tlsf.target_beside)), (None, Some((4, 0, 0))));
    let best = (counts(best.beside_rival), counts(best.target_beside));
    assert_eq!(best, (Some((4, 0, 0)), Some((3, 0, 1))));
    assert!(page(&results, "").contains("dmrt at most it"));
}
