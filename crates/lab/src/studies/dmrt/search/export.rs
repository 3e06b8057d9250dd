//! The map as CSV: a line for every reading, its levels by their values, its distances.

use super::super::gaps::PRINTED;
use super::map::Map;
use std::io::{self, Write};

/// Writes every reading.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_map(to: &mut dyn Write, map: &Map) -> io::Result<()> {
    let mut heads = vec!["stage".to_owned(), "attempts".to_owned()];
    heads.extend(map.space.factors.iter().map(|factor| factor.name.clone()));
    for name in PRINTED {
        heads.extend(["mean", "largest", "near"].map(|what| format!("{name} {what}")));
    }
    heads.push("lead".to_owned());
    writeln!(to, "{}", heads.join(","))?;
    for reading in &map.readings {
        let mut fields = vec![reading.stage.name().to_owned(), reading.attempts.to_string()];
        let levels = map.space.factors.iter().zip(&reading.point);
        fields.extend(levels.map(|(factor, &level)| value(&factor.levels[usize::from(level)])));
        for at in 0..PRINTED.len() {
            match reading.gaps.get(at) {
                Some(gap) => fields.extend([
                    format!("{:.2}", gap.mean),
                    format!("{:.2}", gap.largest),
                    gap.near.to_string(),
                ]),
                None => fields.extend([const { String::new() }; 3]),
            }
        }
        fields.push(reading.lead.map_or_else(String::new, |lead| format!("{lead:.2}")));
        writeln!(to, "{}", fields.join(","))?;
    }
    Ok(())
}

/// `[4,3]` as `4:3`: one field, in no quotes.
fn value(level: &str) -> String {
    let plain = level.chars().filter(|c| !matches!(c, '[' | ']'));
    plain.map(|c| if c == ',' { ':' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_level_is_one_field() {
        assert_eq!(super::value("[4,3] 20"), "4:3 20");
    }
}
