//! From values to places on an axis, and the ticks that a person would choose.

use crate::human;

/// What an axis counts, and so how its ticks are spaced and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes, in binary units.
    Bytes,
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Things.
    Count,
    /// A ratio, `1.5×`.
    Times,
}

/// A place on an axis with what is written there.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// Its label.
    pub label: String,
}

/// Maps values between `from` and `to` onto pixels between `start` and `end`.
#[derive(Clone, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    unit: Unit,
    log: bool,
}

impl Scale {
    /// A linear axis. `to` below `from` is widened to something that can be drawn.
    pub fn linear(from: f64, to: f64, pixels: (f64, f64), unit: Unit) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, start: pixels.0, end: pixels.1, unit, log: false }
    }

    /// A logarithmic axis over whole decades around the values (which must be positive); of bytes, over
    /// whole powers of two.
    pub fn log(from: f64, to: f64, pixels: (f64, f64), unit: Unit) -> Self {
        let base = log_base(unit);
        let from = base.powf((from.max(1e-3).ln() / base.ln() + 1e-9).floor());
        let to = base.powf((to.max(from * base).ln() / base.ln() - 1e-9).ceil());
        Self { from, to, start: pixels.0, end: pixels.1, unit, log: true }
    }

    /// The same axis, reaching up to its next tick.
    pub fn rounded_up(mut self) -> Self {
        if self.log {
            return self;
        }
        let step = step(self.to - self.from, self.unit);
        self.to = (self.to / step - 1e-9).ceil() * step;
        self
    }

    /// The pixel of a value; values outside stick to the ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Labelled places, in rising order: about five on a linear axis, at most eight powers on a logarithmic.
    pub fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = if self.log {
            let base = log_base(self.unit);
            let power = |value: f64| (value.ln() / base.ln()).round() as i32;
            let (low, high) = (power(self.from), power(self.to));
            let every = ((high - low) / 7 + 1) as usize;
            (low..=high).step_by(every).map(|power| base.powi(power)).collect()
        } else {
            let step = step(self.to - self.from, self.unit);
            let first = (self.from / step - 1e-9).ceil() as i64;
            let last = (self.to / step + 1e-9).floor() as i64;
            (first..=last).map(|i| i as f64 * step).collect()
        };
        let label = |value| Tick { value, label: self.label(value) };
        values.into_iter().map(label).collect()
    }

    fn label(&self, value: f64) -> String {
        let largest = if self.log { value } else { self.to.abs().max(self.from.abs()) };
        let (units, base): (&[&str], f64) = match self.unit {
            Unit::Bytes => (&["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024.0),
            Unit::Count => (&["", "k", "M", "G", "T", "P"], 1000.0),
            Unit::Nanoseconds => (&["ns", "µs", "ms", "s"], 1000.0),
            Unit::Seconds => return seconds_label(value, largest),
            Unit::Times => return format!("{}×", trimmed(value)),
        };
        let mut unit = 0;
        while largest / base.powi(unit as i32) >= base && unit + 1 < units.len() {
            unit += 1;
        }
        if value == 0.0 {
            return "0".into();
        }
        join(value / base.powi(unit as i32), units[unit])
    }
}

fn log_base(unit: Unit) -> f64 {
    if unit == Unit::Bytes { 2.0 } else { 10.0 }
}

/// A longer axis than this many seconds is in minutes.
const MOST_SECONDS: f64 = 300.0;

fn seconds_label(value: f64, largest: f64) -> String {
    match largest {
        _ if value == 0.0 => "0".into(),
        l if l > MOST_SECONDS => join(value / 60.0, "min"),
        l if l >= 1.0 => join(value, "s"),
        l if l >= 1e-3 => join(value * 1e3, "ms"),
        _ => join(value * 1e6, "µs"),
    }
}

fn join(value: f64, unit: &str) -> String {
    if unit.is_empty() { trimmed(value) } else { format!("{} {unit}", trimmed(value)) }
}

/// Up to three decimals, none of them a trailing zero.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// 1, 2 or 5 times a power of ten (of the unit, where units are no powers of ten), so that about five fit.
fn step(reach: f64, unit: Unit) -> f64 {
    let rough = (reach / 5.0).max(f64::MIN_POSITIVE);
    let one = match unit {
        Unit::Bytes => 1024f64.powf((reach.max(1.0).ln() / 1024f64.ln()).floor()),
        Unit::Seconds if reach > MOST_SECONDS => 60.0,
        _ => 1.0,
    };
    let rough = rough / one;
    let decade = 10f64.powf(rough.log10().floor());
    let lead = [1.0, 2.0, 5.0, 10.0].into_iter().find(|lead| lead * decade >= rough * 0.999);
    let step = lead.unwrap_or(10.0) * decade * one;
    if matches!(unit, Unit::Bytes | Unit::Count) { step.max(1.0) } else { step }
}

/// One value of a unit, as text in a sentence or a table.
pub fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => human::bytes(value.max(0.0) as u64),
        Unit::Seconds => human::seconds(value),
        Unit::Nanoseconds => human::nanoseconds(value),
        Unit::Count => human::number(value),
        Unit::Times => human::times(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn binary_bytes_fall_on_round_numbers_of_their_unit() {
        let scale = Scale::linear(0.0, 37.4 * 1048576.0, (0.0, 100.0), Unit::Bytes).rounded_up();
        assert_eq!(labels(&scale), ["0", "10 MiB", "20 MiB", "30 MiB", "40 MiB"]);
        let small = Scale::linear(0.0, 100.0, (0.0, 1.0), Unit::Bytes);
        let gib = Scale::linear(0.0, f64::from(1 << 30), (0.0, 1.0), Unit::Bytes);
        assert_eq!(labels(&gib), ["0", "0.2 GiB", "0.4 GiB", "0.6 GiB", "0.8 GiB", "1 GiB"]);
        assert_eq!(labels(&small), ["0", "20 B", "40 B", "60 B", "80 B", "100 B"]);
    }

    #[test]
    fn minutes_fall_on_round_numbers_too() {
        let scale = |to| Scale::linear(0.0, to, (0.0, 100.0), Unit::Seconds).rounded_up();
        assert_eq!(labels(&scale(1_800.0)), ["0", "10 min", "20 min", "30 min"]);
        assert_eq!(labels(&scale(290.0)), ["0", "100 s", "200 s", "300 s"]);
        assert_eq!(labels(&scale(301.0)), ["0", "2 min", "4 min", "6 min"]);
    }

    #[test]
    fn decades_and_ratios() {
        let scale = Scale::log(18.0, 3.0e6, (0.0, 100.0), Unit::Nanoseconds);
        assert_eq!(labels(&scale), ["10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]);
        let scale = Scale::log(3.0e5, 3.0e6, (0.0, 100.0), Unit::Bytes);
        assert_eq!(labels(&scale), ["256 KiB", "512 KiB", "1 MiB", "2 MiB", "4 MiB"]);
        assert_eq!((scale.at(262_144.0), scale.at(1048576.0), scale.at(0.0)), (0.0, 50.0, 0.0));
        let scale = Scale::linear(1.0, 2.0, (0.0, 100.0), Unit::Times);
        assert_eq!(labels(&scale), ["1×", "1.2×", "1.4×", "1.6×", "1.8×", "2×"]);
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        let scale = Scale::linear(0.0, 0.0, (0.0, 100.0), Unit::Seconds).rounded_up();
        assert!(scale.ticks().len() >= 2);
        assert!(scale.at(0.0).is_finite());
        assert_eq!(Scale::linear(0.0, 10.0, (0.0, 100.0), Unit::Count).at(1e9), 100.0);
    }
}
