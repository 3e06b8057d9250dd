//! Numbers as people read them: three significant digits and a unit, the same everywhere.
//!
//! Pure functions from numbers to text; the terminal table, the report and the headline share them,
//! so that one figure is never printed in two ways.

/// Bytes in binary units: `0 B`, `512 B`, `1.50 KiB`, `37.4 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), UNITS[unit])
}

/// A count: exact below ten thousand, then `12.3 k`, `4.56 M`, `7.89 G`.
pub fn count(n: u64) -> String {
    if n < 10_000 {
        return n.to_string();
    }
    scaled(n as f64, &["", "k", "M", "G", "T", "P", "E"], 1000.0)
}

/// A count with its thousands set apart: `1 234 567` (thin no-break spaces).
pub fn exact(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Seconds: `12.3 s`, `45.6 ms`, `7.89 µs`; minutes from two minutes on.
pub fn seconds(s: f64) -> String {
    if s >= 120.0 {
        return format!("{} min", significant(s / 60.0));
    }
    nanoseconds(s * 1e9)
}

/// Nanoseconds: `45 ns`, `1.20 µs`, `3.40 ms`, `1.20 s`.
pub fn nanoseconds(ns: f64) -> String {
    if ns < 999.5 {
        return if ns < 9.95 && ns > 0.0 { format!("{ns:.1} ns") } else { format!("{ns:.0} ns") };
    }
    scaled(ns, &["ns", "µs", "ms", "s"], 1000.0)
}

/// Nanoseconds as far as a clock can tell that advances by `resolution` ns: `< 10 ns`.
pub fn clocked(ns: f64, resolution: f64) -> String {
    if ns < resolution {
        return format!("< {}", nanoseconds(resolution));
    }
    nanoseconds(ns)
}

/// A ratio less one as a percentage: 0.034 is `3.4 %`.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if value.abs() >= 99.95 { format!("{value:.0} %") } else { format!("{value:.1} %") }
}

/// How many times: `1.03×`, `12.5×`.
pub fn times(ratio: f64) -> String {
    format!("{}×", significant(ratio))
}

/// A plain number with three significant digits and no unit.
pub fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { count(value.round() as u64) } else { significant(value) }
}

/// Reads a number of bytes as people write it: `4096`, `64K`, `1.5M`, `2GiB`; units are binary, with
/// or without `B` or `iB`, in any case. `None` for anything else.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let power = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let unit = 1u64 << (10 * power);
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit),
        Err(_) => {
            let bytes = number.parse::<f64>().ok()? * unit as f64;
            (bytes < u64::MAX as f64).then_some(bytes as u64)
        }
    }
}

fn scaled(mut value: f64, units: &[&str], base: f64) -> String {
    let mut unit = 0;
    while value >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{} {}", significant(value), units[unit])
}

fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        let shown: Vec<_> = [0, 1023, 1024, 1536, 39_216_742, 1 << 40].map(bytes).into();
        assert_eq!(shown, ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "37.4 MiB", "1.00 TiB"]);
        assert_eq!(bytes(1_023_999), "0.98 MiB", "never 1000 of a unit");
    }

    #[test]
    fn bytes_are_read_as_they_are_written() {
        let read: Vec<_> = ["4096", "64K", "1.5M", "2GiB", "3 kb", "1T"].map(parse_bytes).into();
        let meant = [4096, 64 << 10, 3 << 19, 2 << 30, 3 << 10, 1 << 40].map(Some);
        assert_eq!(read, meant);
        for wrong in ["", "G", "-1", "2X", "1.2.3", "1e400G", "99999999999T"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn counts_and_times_read_well() {
        assert_eq!([count(9_999), count(12_345), count(4_560_000)], ["9999", "12.3 k", "4.56 M"]);
        assert_eq!(exact(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(
            [seconds(0.0456), seconds(12.34), seconds(300.0)],
            ["45.6 ms", "12.3 s", "5.00 min"]
        );
        assert_eq!(
            [nanoseconds(0.0), nanoseconds(45.2), nanoseconds(1_200.0)],
            ["0 ns", "45 ns", "1.20 µs"]
        );
        assert_eq!(
            [clocked(0.0, 10.0), clocked(10.0, 10.0), clocked(0.0, 0.0)],
            ["< 10 ns", "10 ns", "0 ns"]
        );
        assert_eq!([percent(0.034), percent(1.5)], ["3.4 %", "150 %"]);
    }
}
