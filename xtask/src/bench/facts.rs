//! What a result must say about itself: the machine, the commit, the day, the versions.

use super::allocators::Allocator;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The head line of a raw file.
pub fn head(allocators: &[Allocator], runs: usize, quick: bool) -> Value {
    let versions: serde_json::Map<String, Value> = allocators
        .iter()
        .map(|allocator| {
            let options: Vec<String> =
                allocator.env.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (allocator.name.clone(), json!({"version": allocator.version, "options": options}))
        })
        .collect();
    json!({
        "kind": "head",
        "date": date(),
        "command": std::env::args().skip(1).collect::<Vec<_>>(),
        "commit": commit(),
        "runs": runs,
        "quick": quick,
        "machine": machine(),
        "allocators": versions,
    })
}

fn machine() -> Value {
    json!({
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": line("/proc/sys/kernel/osrelease"),
        "thp": line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "overcommit": line("/proc/sys/vm/overcommit_memory"),
        "load": line("/proc/loadavg"),
    })
}

fn field(file: &str, key: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

fn line(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The commit, with a `+` when shipped files differ from it.
pub fn commit() -> String {
    let git = |args: &[&str]| {
        let output =
            Command::new("git").current_dir(crate::sources::root()).args(args).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed =
        git(&["status", "--porcelain", "--", "crates"]).is_some_and(|list| !list.is_empty());
    if changed { head + "+" } else { head }
}

/// Today, as year-month-day (UTC).
pub fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(i64::try_from(seconds / 86_400).unwrap_or(0));
    format!("{year:04}-{month:02}-{day:02}")
}

/// The Gregorian date of a day counted from 1970-01-01, by eras of 400 years that begin on 1 March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }
}
