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

fn results() -> Results {
    let plan = Plan::parse("default", DEFAULT).unwrap();
    let first = &plan.programs[0];
    let mut met = Found::missing(first, String::new());
    met.missing = None;
    met.policies = vec![outcome("dmrt", 0.2), outcome("tlsf", 0.3)];
    met.target_met = [("external", true), ("internal", false)].into();
    let gone = Found::missing(&plan.programs[3], "redis-server is not installed".to_owned());
    Results::of(&plan, vec![met, gone])
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
    assert!(said("[[trace]]", "[[trace").starts_with("mine.toml is not TOML"));
}

#[test]
fn all_is_told_met_or_not_there_or_missing() {
    let results = results();
    let answer = results.answer();
    assert!(answer.contains("in 1 of 2 comparisons: 1 programs by 4 measures"), "{answer}");
    assert!(answer.contains("Not in: python3 (internal)") && answer.contains("1 could not"));
    assert!(!answer.contains("; at most"), "there are no others: {answer}");
    let mut results = results;
    results.traces[0].policies.push(outcome("best-fit", 0.2));
    let answer = results.answer();
    // Of the four measures, outcomes have two, and Johnstone-Wilson's are all 0 here.
    assert!(
        answer.contains("dmrt is at most best-fit in 4; at most tlsf are best-fit in 4."),
        "{answer}"
    );
    let page = page(&results, "freehold study fragmentation");
    assert!(page.contains("dmrt is above tlsf&#39;s in internal."));
    assert!(page.contains("Missing: redis-server is not installed."));
    assert!(page.contains("are no blind test"), "the note stands on the page");
    crate::report::sound::assert_sound(&page);
}
